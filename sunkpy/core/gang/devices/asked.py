"""What the ResourceClaims of pods ask for, as GRES that Slurm counts, and why devices are refused.

A gang is refused if the administrator has named no GRES for a claim's DeviceClass, if a pod asks by an extended
resource for a DeviceClass that the scheduler does not know, or if several containers of a pod ask for the GPUs of
sunkpy's device plugin.

The administrator maps each DeviceClass to a GRES (`scheduler.deviceClasses`). A request for some devices of one class
is then a number of a GRES. Slurm knows nothing else that a request may contain (selectors, capacity …). So a request
with such a part is refused, and the message names the part. Only tolerations are allowed, because the scheduler checks
them itself.

The devices are added to the pod's own requests as `claimed.sunkpy.dev/<class>`, so the code that plans a job finds them
there. A pod on a node keeps the devices that it has. Other extended resources, such as `nvidia.com/gpu`, become GRES in
`core.placement.needs`.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping

import msgspec

from sunkpy.core.gang.devices.handout import gpus_asked
from sunkpy.core.gang.devices.made import OWN_NAME, claim_spec_of, without_resources
from sunkpy.core.gang.gang import Gang, Role
from sunkpy.core.model import matching
from sunkpy.core.model.devices import CLAIMED, DEVICE_CLASS, DeviceRequest, ResourceClaim, ResourceClaimSpec
from sunkpy.core.model.gres import gres_name
from sunkpy.core.model.objects import Pod, PodSpec
from sunkpy.core.placement.needs import count_gres


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """What the scheduler knows of the ResourceClaims of pods.

    Args:
        classes: DeviceClass → GRES, `gpu` or `gpu:h100`.
        claims: by pod uid and the pod's own name for the claim; a claim that does not exist yet is missing.
        templates: specs of ResourceClaimTemplates, by name, for pods that do not exist yet.
        by_claim: extended resource → the DeviceClass for which it stands: for pods that ask for it the scheduler makes
            a claim.
    """

    classes: Mapping[str, str] = {}
    claims: Mapping[str, Mapping[str, ResourceClaim]] = {}
    templates: Mapping[str, ResourceClaimSpec] = {}
    by_claim: Mapping[str, str] = {}


def claim_names(pod: Pod) -> dict[str, str]:
    """Return the pod's own names for its claims → the names of the ResourceClaim objects. The object's name is empty if
    the claim does not exist yet.

    A claim that the scheduler made for the pod is among them only once the pod is bound.
    """
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    asked = {each.name: each.resource_claim_name for each in pod.spec.resource_claims}
    # A status with an empty name says that the pod does not need this claim.
    found = {name: known or made.get(name, "") for name, known in asked.items() if known or made.get(name) != ""}
    extended = pod.status.extended_resource_claim_status
    return found | ({OWN_NAME: extended.resource_claim_name} if extended and pod.spec.node_name else {})


def missing_claim(pod: Pod, claims: Mapping[str, ResourceClaim]) -> str:
    """Say for which ResourceClaim the pod waits, because it does not exist; empty if all claims of the pod exist.
    `claims`: the existing ones, by the pod's own names for them.
    """
    for name, object_name in claim_names(pod).items():
        if name not in claims:
            return (
                f"ResourceClaim {object_name} of pod {pod.name}" if object_name else f"claim {name} of pod {pod.name}"
            )
    return ""


def with_devices(gang: Gang, claimed: Claimed) -> Gang:
    """Return the gang with the devices that claims ask for added to the requests of its pods and templates, as
    `claimed.sunkpy.dev/<class>`.
    """
    shapes = (role.shape for role in gang.roles if role.shape is not None)
    if not (claimed.by_claim or claimed.claims or any(shape.resource_claims for shape in shapes)):
        return gang
    return msgspec.structs.replace(gang, roles=tuple(_role_with(role, claimed) for role in gang.roles))


def devices_counted(pod: Pod) -> int:
    """Return how many devices of claims a pod asks for, if `with_devices` has added them to the pod's requests."""
    return sum(int(amount) for name, amount in pod.spec.resources.requests.items() if name.startswith(CLAIMED))


def refused_devices(gang: Gang, claimed: Claimed | None, gpu_resources: Mapping[str, str], plugin_resource: str) -> str:
    """Say why the gang cannot have the devices that its pods ask for; empty if nothing speaks against it.

    Args:
        gang: as its family (kind of workload) made it.
        claimed: what is known of the pods' claims; None if this scheduler allocates no claims.
        gpu_resources: extended resource → GRES name.
        plugin_resource: the extended resource whose GPUs sunkpy's device plugin hands out; empty if the plugin is not
            in use.
    """
    by_claim = claimed.by_claim if claimed is not None else {}
    return (
        _refused_resources(gang, {*gpu_resources, *by_claim})
        or refused_claims(gang, claimed, gpu_resources)
        or _refused_containers(gang, plugin_resource)
    )


def refused_claims(gang: Gang, claimed: Claimed | None, gpu_resources: Mapping[str, str]) -> str:
    """Say why a ResourceClaim of the gang is refused; empty if none is. Only the claims of existing pods that have no
    node are checked.

    Args:
        gang: as its family (kind of workload) made it, or with the devices of claims added to its requests.
        claimed: what is known of the claims; None if this scheduler allocates no claims.
        gpu_resources: extended resource → GRES name.
    """
    users: dict[tuple[str, str], str] = {}
    for pod in gang.members:
        claims = claimed.claims.get(pod.uid, {}) if claimed is not None else {}
        if not (pod.spec.resource_claims or claims) or pod.spec.node_name or pod.is_finished:
            continue
        if claimed is None:
            names = ", ".join(claim.name for claim in pod.spec.resource_claims)
            return f"pod {pod.name} has resource claims ({names}): Slurm cannot allocate the devices of a claim"
        for claim in claims.values():
            if why := explain_claim(pod, claim, claimed.classes):
                return why
            if (other := users.setdefault(claim.key, pod.name)) != pod.name:
                return f"pods {other} and {pod.name} share claim {claim.name}: give each one of its own, by a template"
        by_claim = {gres_name(claimed.classes[name]) for name in _counts(pod, claimed)}
        of_plugins = {name: gres for name, gres in gpu_resources.items() if name not in claimed.by_claim}
        by_resource = count_gres(matching.pod_requests(pod.spec), of_plugins).items()
        if both := sorted(by_claim & {gres_name(gres) for gres, count in by_resource if count}):
            return f"pod {pod.name} asks for {both[0]} by a claim and as a resource: use only one of them"
    return ""


def _refused_resources(gang: Gang, known: Container[str]) -> str:
    for name, spec in gang.named_specs:
        wanted = (each for one in matching.containers_of(spec) for each in matching.wanted(one.resources).items())
        for resource in sorted({resource for resource, amount in wanted if amount != "0"}):
            if resource.startswith(CLAIMED) or (resource.startswith(DEVICE_CLASS) and resource not in known):
                return (
                    f"{name} asks for {resource}, for which the scheduler knows no GRES: ask for the devices by a "
                    "ResourceClaim"
                )
    return ""


def _refused_containers(gang: Gang, resource: str) -> str:
    """Say which pod or role of the gang asks for the GPUs of sunkpy's device plugin (`resource`) in several containers;
    empty if none does. Such a gang is refused: the kubelet does not tell the plugin for which container it asks.
    """
    found = (name for name, spec in gang.named_specs if resource and len(gpus_asked(spec, resource)) > 1)
    return next(
        (f"{name} asks for {resource} in several containers: let one of them have the GPUs" for name in found), ""
    )


def explain_claim(pod: Pod, claim: ResourceClaim, classes: Mapping[str, str]) -> str:
    """Say why the pod cannot have the devices that this claim asks for; empty if it can. `classes`: DeviceClass →
    GRES.
    """
    whose = f"claim {claim.name} of pod {pod.name}"
    if claim.is_deleting:
        return f"{whose} is being deleted"
    if claim.is_allocated and not claim.is_for(pod.uid):
        users = ", ".join(f"{user.resource} {user.name}" for user in claim.status.reserved_for) or "nobody yet"
        return f"{whose} is allocated by somebody else, for {users}: it can be used again when they have ended"
    why = _refused_spec(claim.spec, classes)
    return f"{whose}: {why}" if why else ""


def _refused_spec(spec: ResourceClaimSpec, classes: Mapping[str, str]) -> str:
    if spec.devices.constraints:
        return "it has constraints, and Slurm does not know what devices have in common: leave them out"
    return next((why for request in spec.devices.requests if (why := _refused_request(request, classes))), "")


def _refused_request(request: DeviceRequest, classes: Mapping[str, str]) -> str:
    asked, whose = request.exactly, f"request {request.name}"
    if asked is None:
        return f"{whose} does not use `exactly`, and Slurm has to know what is wanted: ask for exactly one class"
    if asked.admin_access:
        return f"{whose} asks for adminAccess, which is not for workloads of Slurm"
    if asked.allocation_mode != "ExactCount":
        return f"{whose} has allocationMode {asked.allocation_mode}, and Slurm has to know how many: ask for a count"
    if asked.selectors:
        return f"{whose} has selectors (CEL), which Slurm cannot evaluate: ask for a class of such devices"
    if asked.capacity is not None:
        return f"{whose} asks for a part of a device (capacity), and Slurm gives whole ones"
    if asked.device_class_name not in classes:
        known = ", ".join(sorted(classes))
        return f"{whose}: scheduler.deviceClasses names no GRES for class {asked.device_class_name}, only for {known}"
    return ""


def _role_with(role: Role, claimed: Claimed) -> Role:
    members = tuple(msgspec.structs.replace(each, pod=_pod_with(each.pod, claimed)) for each in role.members)
    shape = role.shape
    if shape is not None:
        named = (claimed.templates.get(each.resource_claim_template_name) for each in shape.resource_claims)
        wanted = [*(spec for spec in named if spec is not None), claim_spec_of(shape, claimed.by_claim)]
        shape = _with_counts(without_resources(shape, claimed.by_claim), _sum(wanted))
    return msgspec.structs.replace(role, members=members, shape=shape)


def _pod_with(pod: Pod, claimed: Claimed) -> Pod:
    extended = pod.status.extended_resource_claim_status
    resources: Collection[str] = claimed.by_claim if not pod.spec.node_name else ()
    if extended is not None and pod.spec.node_name:
        resources = {each.resource_name for each in extended.request_mappings}
    spec = _with_counts(without_resources(pod.spec, resources), _counts(pod, claimed))
    return msgspec.structs.replace(pod, spec=spec) if spec != pod.spec else pod


def _counts(pod: Pod, claimed: Claimed) -> dict[str, int]:
    return _sum(claim.spec for claim in claimed.claims.get(pod.uid, {}).values())


def _sum(specs: Iterable[ResourceClaimSpec]) -> dict[str, int]:
    """Return for each DeviceClass how many devices of it these claim specs ask for together."""
    counts: dict[str, int] = {}
    for spec in specs:
        for asked in (request.exactly for request in spec.devices.requests):
            if asked is not None:
                counts[asked.device_class_name] = counts.get(asked.device_class_name, 0) + asked.count
    return counts


def _with_counts(spec: PodSpec, counts: Mapping[str, int]) -> PodSpec:
    if not counts:
        return spec
    amounts = {f"{CLAIMED}{name}": str(count) for name, count in counts.items()}
    requests = spec.resources.requests | amounts
    return msgspec.structs.replace(spec, resources=msgspec.structs.replace(spec.resources, requests=requests))

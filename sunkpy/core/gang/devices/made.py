"""The ResourceClaim that the scheduler makes for a pod that asks for the extended resource of a DeviceClass.

Such a pod names no claim. Its scheduler makes a claim, and says in the pod's status which container has which request
of the claim (KEP-5004). The pod's requests for that resource are then removed from what is compared with the kubelet's
resources. The name of the claim follows from the pod, so a second claim for the same pod is never made.

If some kubelet offers the same resource, device plugins serve it, and no claim is made. The job is made before its node
is known, so a resource must be served in the same way on all nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from sunkpy.core.model import matching, quantity
from sunkpy.core.model.devices import (
    DEVICE_CLASS,
    DeviceChoice,
    DeviceClass,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    WantedDevices,
)
from sunkpy.core.model.objects import ClaimRequestMapping, Container, Meta, Pod, PodSpec, Resources

OWN_NAME: Final = ""
"""The key, in a pod's claims, of the claim that the scheduler made. Claims that the pod names have a name."""

_LONGEST: Final = 200


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Return the extended resources that stand for these DeviceClasses: resource → name of the class. Each class has
    the resource with its own name, and the one in its spec, if there is one.
    """
    found: dict[str, str] = {}
    for each in classes:
        found[DEVICE_CLASS + each.name] = each.name
        if each.spec.extended_resource_name:
            found[each.spec.extended_resource_name] = each.name
    return found


def made_name(pod: Pod) -> str:
    """Return the name of the ResourceClaim that the scheduler makes for a pod. It follows from the pod's name and
    uid.
    """
    return f"{pod.name[:_LONGEST].rstrip('.-')}-extended-resources-{pod.uid[:8]}"


def asks_for_devices(spec: PodSpec) -> bool:
    """True if the pod asks for any extended resource, whether it belongs to a DeviceClass or not."""
    return any("/" in name for each in matching.containers_of(spec) for name in matching.wanted(each.resources))


def requests_of(spec: PodSpec, by_claim: Mapping[str, str]) -> list[tuple[ClaimRequestMapping, DeviceRequest]]:
    """Return the requests of the ResourceClaim that is made for a pod with this spec. With each request comes a
    mapping, which says for which container and which extended resource it is.

    Args:
        spec: the pod's spec.
        by_claim: extended resource → DeviceClass.
    """
    found = []
    for at, container in enumerate(matching.containers_of(spec)):
        asked = {
            name: count for name, count in sorted(matching.wanted(container.resources).items()) if name in by_claim
        }
        for number, (resource, amount) in enumerate(asked.items()):
            if count := quantity.whole(amount):
                name = f"container-{at}-request-{number}"
                whose = ClaimRequestMapping(container_name=container.name, resource_name=resource, request_name=name)
                choice = DeviceChoice(device_class_name=by_claim[resource], count=count)
                found.append((whose, DeviceRequest(name=name, exactly=choice)))
    return found


def claim_spec_of(spec: PodSpec, by_claim: Mapping[str, str]) -> ResourceClaimSpec:
    """Return the spec of the ResourceClaim that is made for a pod with this spec. It has no requests if the pod needs
    no such claim. `by_claim`: extended resource → DeviceClass.
    """
    requests = tuple(request for _, request in requests_of(spec, by_claim))
    return ResourceClaimSpec(devices=WantedDevices(requests=requests))


def claim_to_make(pod: Pod, by_claim: Mapping[str, str]) -> ResourceClaim | None:
    """Return the ResourceClaim that the scheduler has to make for a pod, still without uid; None if the pod needs none.
    `by_claim`: extended resource → DeviceClass.
    """
    spec = claim_spec_of(pod.spec, by_claim)
    metadata = Meta(name=made_name(pod), namespace=pod.metadata.namespace)
    return ResourceClaim(metadata=metadata, spec=spec) if spec.devices.requests else None


def without_resources(spec: PodSpec, resources: Collection[str]) -> PodSpec:
    """Return the pod spec without the requests and limits of all its containers for these extended resources."""

    def left(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(
            msgspec.structs.replace(each, resources=_without(each.resources, resources)) for each in containers
        )

    return msgspec.structs.replace(spec, containers=left(spec.containers), init_containers=left(spec.init_containers))


def _without(asked: Resources, resources: Collection[str]) -> Resources:
    requests, limits = (
        {name: amount for name, amount in amounts.items() if name not in resources}
        for amounts in (asked.requests, asked.limits)
    )
    return Resources(requests=requests, limits=limits)

"""The family of the groups that Kubernetes itself has: pods name them in `spec.workloadRef` (1.35) or
`spec.schedulingGroup` (1.36 and later).

A pod of 1.35 names a Workload, a pod group in it, and perhaps a replica of that group; each replica is a gang of its
own. A pod of 1.36 names a PodGroup. With the policy *gang*, `minCount` pods are a gang, and all of them must exist
before the job is submitted; further pods get jobs of their own. With the policy *basic*, this family does not take the
pods: another family takes each of them by the kind of its owner, as if it were in no group. A PodGroup that is part of
a CompositePodGroup (1.37) is refused: its pods would start without the other groups.

Sources: kubernetes staging/src/k8s.io/api/scheduling: v1alpha1 (`podGroups[].policy`, immutable), v1alpha2 and later
(`schedulingPolicy`; only `minCount` can change; `schedulingConstraints.topology`, one key).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.families.batch_job import as_made
from sunkpy.core.gang.families.belonging import named_id
from sunkpy.core.gang.families.declaration import BadDeclaration, about, options_of, role, size
from sunkpy.core.gang.gang import Family, Gang, Link, Owners
from sunkpy.core.gang.identity import GangId, token
from sunkpy.core.model.objects import Kind, Owner, Pod, Wire

WORKLOAD: Final = Kind(group="scheduling.k8s.io", kind="Workload")
POD_GROUP: Final = Kind(group="scheduling.k8s.io", kind="PodGroup")


class _GangPolicy(Wire, frozen=True, kw_only=True):
    min_count: int | None = None


class _Basic(Wire, frozen=True, kw_only=True):
    pass


class _Policy(Wire, frozen=True, kw_only=True):
    basic: _Basic | None = None
    gang: _GangPolicy | None = None


class _Template(Wire, frozen=True, kw_only=True):
    name: str = ""
    policy: _Policy = _Policy()


class _WorkloadSpec(Wire, frozen=True, kw_only=True):
    pod_groups: tuple[_Template, ...] = ()


class _Topology(Wire, frozen=True, kw_only=True):
    key: str = ""


class _Constraints(Wire, frozen=True, kw_only=True):
    topology: tuple[_Topology, ...] = ()


class _PodGroupSpec(Wire, frozen=True, kw_only=True):
    parent_composite_pod_group_name: str | None = None
    scheduling_policy: _Policy = _Policy()
    scheduling_constraints: _Constraints = _Constraints()


def _identify(pod: Pod, owners: Owners) -> GangId | None:
    if _is_basic(pod, owners):
        return None
    if pod.spec.scheduling_group and (name := pod.spec.scheduling_group.pod_group_name):
        return named_id(pod, "spec.schedulingGroup", name)
    reference = pod.spec.workload_ref
    if reference is None or not reference.name:
        return None
    # Neither part contains a dot: both are DNS labels.
    unit = ".".join(token(part) for part in (reference.pod_group, reference.pod_group_replica_key) if part)
    return named_id(pod, "spec.workloadRef", reference.name, unit=unit)


def _refers(pod: Pod) -> tuple[Link, ...]:
    if pod.spec.scheduling_group and (name := pod.spec.scheduling_group.pod_group_name):
        return (Link(kind=POD_GROUP, namespace=pod.metadata.namespace, name=name),)
    reference = pod.spec.workload_ref
    if reference is None or not reference.name:
        return ()
    return (Link(kind=WORKLOAD, namespace=pod.metadata.namespace, name=reference.name),)


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    (what,) = _refers(pods[0])
    kind = f"{what}, group {id.unit}" if id.unit else str(what)
    group = what.find_in(owners)
    if group is None:
        raise BadDeclaration(f"{what}, named by the pod's spec, does not exist")
    with about(kind):
        seats = _seats(_policy(pods[0], group))
    options, problems = options_of(pods, owners)
    roles = (role("pod", pods, seats),)
    gang = Gang(id=id, roles=roles, options=options, problems=problems, kind=kind, one_domain=_domain(group))
    return as_made(gang, pods, owners)


def _is_basic(pod: Pod, owners: Owners) -> bool:
    """True if the group that the pod names has the policy *basic*, which lets its pods start independently. False if
    the group cannot be read. A group never changes its policy.
    """
    group = next((found for link in _refers(pod) if (found := link.find_in(owners))), None)
    try:
        policy = _policy(pod, group) if group is not None else _Policy()
    except (msgspec.ValidationError, RecursionError, BadDeclaration):
        return False  # `assemble` reports the error
    return policy.basic is not None and policy.gang is None


def _policy(pod: Pod, group: Owner) -> _Policy:
    if group.is_a == POD_GROUP:
        spec = group.spec_as(_PodGroupSpec)
        if parent := spec.parent_composite_pod_group_name:
            raise BadDeclaration(
                f"it is part of CompositePodGroup {parent}, and groups of groups do not start together here: "
                "make one PodGroup of all pods, or leave parentCompositePodGroupName out"
            )
        return spec.scheduling_policy
    name = pod.spec.workload_ref.pod_group if pod.spec.workload_ref is not None else ""
    found = next((each.policy for each in group.spec_as(_WorkloadSpec).pod_groups if each.name == name), None)
    if found is None:
        raise BadDeclaration(f"there is no pod group {name!r} in it")
    return found


def _seats(policy: _Policy) -> int:
    if policy.gang is None:
        raise BadDeclaration("the policy is neither gang nor basic")
    if policy.gang.min_count is None:
        raise BadDeclaration("policy gang without minCount")
    return size(policy.gang.min_count)


def _domain(group: Owner) -> str:
    if group.is_a != POD_GROUP:
        return ""
    return next((each.key for each in group.spec_as(_PodGroupSpec).scheduling_constraints.topology), "")


FAMILY = Family(
    name="Kubernetes group",
    known_by="spec.workloadRef or spec.schedulingGroup",
    identify=_identify,
    assemble=_assemble,
    reads=(WORKLOAD, POD_GROUP),
    refers=_refers,
)

"""The family of PodGroups of the scheduler plugins (coscheduling): a label on pods names the PodGroup, and its
`spec.minMember` pods start together.

These pods have one job, and all of them must exist before the job is submitted. Further pods get a job each.
training-operator, mpi-operator and spark-operator write such PodGroups for any scheduler, and their counts can be
wrong, so the families of these operators come first. The older label `pod-group.scheduling.sigs.k8s.io` names a
PodGroup of the API group `scheduling.sigs.k8s.io`; Koordinator still uses it.

Source: scheduler-plugins apis/scheduling/v1alpha1/types.go (minMember, at least 1), pkg/coscheduling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sunkpy.core.gang.families.batch_job import as_made
from sunkpy.core.gang.families.belonging import named_id
from sunkpy.core.gang.families.declaration import BadDeclaration, about, options_of, role, size
from sunkpy.core.gang.gang import Family, Gang, Link, Owners
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Kind, Owner, Pod, Wire

LABELS: Final = {
    "scheduling.x-k8s.io/pod-group": Kind(group="scheduling.x-k8s.io", kind="PodGroup"),
    "pod-group.scheduling.sigs.k8s.io": Kind(group="scheduling.sigs.k8s.io", kind="PodGroup"),
}


class _Spec(Wire, frozen=True, kw_only=True):
    min_member: int = 1


def _label(pod: Pod) -> str:
    return next((label for label in LABELS if pod.labels.get(label)), "")


def _identify(pod: Pod, _owners: Owners) -> GangId | None:
    label = _label(pod)
    return named_id(pod, label, pod.labels[label]) if label else None


def _refers(pod: Pod) -> tuple[Link, ...]:
    label = _label(pod)
    return (Link(kind=LABELS[label], namespace=pod.metadata.namespace, name=pod.labels[label]),) if label else ()


def _group(pod: Pod, owners: Owners) -> Owner | None:
    (link,) = _refers(pod)
    return link.find_in(owners)


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    kind = f"PodGroup {id.namespace}/{id.name}"
    group = _group(pods[0], owners)
    if group is None:
        raise BadDeclaration(f"{kind}, named by label {_label(pods[0])}, does not exist")
    with about(f"{kind}: spec.minMember"):
        seats = size(group.spec_as(_Spec).min_member)
    options, problems = options_of(pods, owners)
    roles = (role("pod", pods, seats),)
    return as_made(Gang(id=id, roles=roles, options=options, problems=problems, kind=kind), pods, owners)


FAMILY = Family(
    name="scheduler-plugins PodGroup",
    known_by="label scheduling.x-k8s.io/pod-group or pod-group.scheduling.sigs.k8s.io",
    identify=_identify,
    assemble=_assemble,
    reads=tuple(LABELS.values()),
    refers=_refers,
)

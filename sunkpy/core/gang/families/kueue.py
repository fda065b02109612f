"""The family of Kueue's groups of plain pods: a label on pods names the group, and an annotation says how many pods the
group has.

The pods have a scheduling gate until Kueue has seen all of them; then Kueue removes the gates one by one. A gated pod
must not be scheduled, so the job waits for the last gate. With fast admission Kueue removes the gates of the pods that
it sees, because other pods are made only when these run. Then the first pod is enough to submit the job, and the job
has room for the others.

Other kinds of workloads are recognised as without Kueue, which only suspends and resumes them. Kueue also writes the
label and the annotation on pods of a StatefulSet or LeaderWorkerSet. There the count is that of the owner, which may
make its pods one after another, so waiting for all of them would never end. Another annotation marks such pods, and
this family does not take them.

Source: Kueue v0.14.0, pkg/controller/jobs/pod/constants/constants.go, pkg/controller/jobs/pod/pod_controller.go
(constructGroupPodSets, groupTotalCount), pkg/controller/jobs/statefulset/statefulset_webhook.go,
apis/kueue/v1beta1/topology_types.go (pod-group-pod-index).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.families.belonging import made_by, maker, named_id
from sunkpy.core.gang.families.declaration import BadDeclaration, about, current, make, ordinal
from sunkpy.core.gang.gang import Family, Gang, Member, Owners, Role, by_seniority, ranked
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Kind, Pod

GROUP_NAME: Final = "kueue.x-k8s.io/pod-group-name"
TOTAL_COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
FAST_ADMISSION: Final = "kueue.x-k8s.io/pod-group-fast-admission"
POD_INDEX: Final = "kueue.x-k8s.io/pod-group-pod-index"
SUSPENDING_PARENT: Final = "kueue.x-k8s.io/pod-suspending-parent"

STATEFUL_SET: Final = Kind(group="apps", kind="StatefulSet")


def _identify(pod: Pod, _owners: Owners) -> GangId | None:
    name = pod.labels.get(GROUP_NAME, "")
    if not name or SUSPENDING_PARENT in pod.annotations or made_by(pod, STATEFUL_SET) is not None:
        return None
    return named_id(pod, GROUP_NAME, name)


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    called = f"Kueue pod group {id.namespace}/{id.name}"
    with about(called):
        roles = _roles(pods)
    gang = make(Gang(id=id, roles=roles, kind=called), owners)
    final = "" if all(map(maker, pods)) else "Kueue makes no pod of a group again"
    return msgspec.structs.replace(gang, final_because=final)


def _roles(pods: Sequence[Pod]) -> tuple[Role, ...]:
    seats = _count(pods)
    first = 1 if any(FAST_ADMISSION in pod.annotations for pod in pods) else seats
    return (Role(name="pod", seats=seats, first=first, members=_seated(pods, seats)),)


def _count(pods: Sequence[Pod]) -> int:
    texts = sorted({pod.annotations.get(TOTAL_COUNT, "") for pod in current(pods)})
    if len(texts) > 1:
        said = " and ".join(repr(text[:40]) for text in texts[:3])
        raise BadDeclaration(f"annotation {TOTAL_COUNT} differs between its pods: {said}")
    if (count := ordinal(texts[0])) < 1:
        raise BadDeclaration(f"annotation {TOTAL_COUNT} is {texts[0][:40]!r}: write how many pods the group has")
    return count


def _seated(pods: Sequence[Pod], seats: int) -> tuple[Member, ...]:
    indices = {pod.uid: ordinal(pod.labels.get(POD_INDEX, "")) for pod in pods}
    if all(0 <= index < seats for index in indices.values()):
        return ranked(pods, lambda pod: indices[pod.uid])
    return by_seniority(pods, seats)


FAMILY = Family(
    name="Kueue pod group", known_by="label kueue.x-k8s.io/pod-group-name", identify=_identify, assemble=_assemble
)

"""Writes Events about two kinds of pods: pods whose gang cannot be found (yet), and pods whose changed labels,
annotations or owners name another gang, too late to move the pod.
"""

from __future__ import annotations

from functools import partial

from sunkpy.core import names
from sunkpy.core.gang.gang import solo_pod
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Pod
from sunkpy.kube.errors import NotFound
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.outbox import Outbox
from sunkpy.scheduler.pods.index import PodsByGang
from sunkpy.scheduler.pods.recognition import Recognition
from sunkpy.scheduler.pods.writer import POD_SCHEDULED


class Unidentified:
    """Reports on two kinds of pods: why the gang of a pod is unknown, and that a pod stays in its first gang although
    it now names another one.
    """

    def __init__(self, leader: Leader, members: PodsByGang, recognition: Recognition, outbox: Outbox) -> None:
        self._leader = leader
        self._members = members
        self._recognition = recognition
        self._outbox = outbox

    def pod_changed(self, old: Pod | None, new: Pod) -> None:
        """Queue a report if the gang of the pod `new` is unknown, or if the labels or annotations of a pod without a
        node changed so that they name another gang than its own.
        """
        id = self._members.find_id(new)
        if id is None:  # most pods find their gang at once; the others are reported
            after_s = self._leader.settings.times.unidentified_told_after_s
            self._outbox.later(new.uid, "owner", partial(self._report, new.uid), after_s=after_s)
        elif old is not None and not new.spec.node_name and _says(old) != _says(new):
            self._check_gang(new, id)

    def _check_gang(self, new: Pod, id: GangId) -> None:
        """Queue a warning if the pod's labels, annotations or owners now name the gang of another owner than `id`, the
        gang in which the pod stays.
        """
        said = self._recognition.identify(new)
        if said is None or solo_pod(id) or said.shares_owner_with(id):
            return
        note = (
            f"the pod stays in {id}, for which it was made: delete it, so that the pod that is made in its place "
            f"belongs to {said}"
        )
        write = partial(self._outbox.warn, new, reason="StaysInGang", action="Scheduling", note=note)
        self._outbox.later(new.uid, "gang", write)

    async def _report(self, uid: str) -> None:
        pod = self._members.find(uid)
        if pod is None or self._members.find_id(pod) is not None:
            return
        why = f"not scheduled yet: {self._recognition.why_unknown(uid)}"
        if (told := pod.condition(POD_SCHEDULED)) is not None and told.message == why:
            return
        try:
            if not pod.spec.node_name:
                await self._leader.pods.not_scheduled(pod, why)
        except NotFound:
            return
        await self._outbox.warn(pod, reason="OwnerUnknown", action="Scheduling", note=why)


def _says(pod: Pod) -> tuple[object, ...]:
    """Return the pod's labels and annotations, which may name its gang, without the annotations that the scheduler
    writes itself while the pod waits.
    """
    notes = (names.ANNOTATION_JOB_ID, names.ANNOTATION_ASKED)
    return (pod.labels, {name: text for name, text in pod.annotations.items() if name not in notes})

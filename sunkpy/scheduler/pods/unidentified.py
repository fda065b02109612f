"""Writes Events about two kinds of pods: pods whose gang cannot be found (yet), and pods whose changed labels,
annotations or owners name another gang, too late to move the pod.
"""

from __future__ import annotations

from functools import partial

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

    def unidentified(self, pod: Pod) -> None:
        """Queue a report that the gang of the pod is unknown. It is not written if the gang is found meanwhile, as that
        of most pods is.
        """
        after_s = self._leader.settings.times.unidentified_told_after_s
        self._outbox.later(pod.uid, "owner", partial(self._report, pod.uid), after_s=after_s)

    def relabelled(self, pod: Pod, id: GangId) -> None:
        """Queue a warning if the pod's labels, annotations or owners now name the gang of another owner than `id`, the
        gang in which the pod stays.
        """
        said = self._recognition.identify(pod)
        if said is None or solo_pod(id) or said.shares_owner_with(id):
            return
        note = (
            f"the pod stays in {id}, for which it was made: delete it, so that the pod that is made in its place "
            f"belongs to {said}"
        )
        write = partial(self._outbox.warn, pod, reason="StaysInGang", action="Scheduling", note=note)
        self._outbox.later(pod.uid, "gang", write)

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

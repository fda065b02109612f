"""What follows when pods find their gangs, wait for one, or leave it: gangs are woken, and people told."""

from __future__ import annotations

from typing import Final

import structlog

from sunkpy.core import names
from sunkpy.core.gang.gang import extra_pod
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Pod
from sunkpy.kube.errors import NotFound
from sunkpy.runtime.queue import QueueMetrics, WorkQueue, run_workers
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.members import LEFT_OUT_S, MemberIndex
from sunkpy.scheduler.pod_writer import PodWriter
from sunkpy.scheduler.recognition import Recognition

TELL_AFTER_S: Final = 3.0
_LOOK_AGAIN_S: Final = 30.0


class Membership:
    """The listener of a MemberIndex. Says of pods that are kept aside what they wait for."""

    def __init__(self, *, recognition: Recognition, pods: PodWriter, ledger: Ledger, queue: WorkQueue[GangId]) -> None:
        self._recognition = recognition
        self._pods = pods
        self._ledger = ledger
        self._queue = queue
        self._aside: WorkQueue[str] = WorkQueue("pods-aside")
        self._said: dict[str, str] = {}
        self._stays: dict[str, tuple[Pod, str]] = {}
        self._log = structlog.get_logger("members")

    async def run(self, members: MemberIndex, metrics: QueueMetrics | None = None) -> None:
        """Tell until cancelled."""
        await run_workers(self._aside, lambda uid: self._tell(members.aside(uid), uid), workers=1, metrics=metrics)

    def owner_changed(self, id: GangId, *, is_wish: bool) -> None:
        """The gang may look different now; what was refused may be tried at once when somebody wants it otherwise."""
        entry = self._ledger.get(id)
        if entry is not None:
            if is_wish:
                entry.forgive()
            self._queue.add(id)
            entry.fire()

    def kept_aside(self, pod: Pod) -> None:
        """Most find their gang at once; of others their people should know."""
        self._aside.add_after(pod.uid, TELL_AFTER_S)

    def left_out(self, id: GangId) -> None:
        """Look again when it has waited long enough."""
        self._queue.add_after(id, LEFT_OUT_S)

    def parted(self, pod: Pod, base: GangId) -> None:
        """What is remembered of the pod is not the base gang's any more."""
        self._log.info("parted", pod="/".join(pod.key), gang=str(base))
        entry = self._ledger.get(base)
        if entry is not None:
            entry.members.pop(pod.uid, None)
            entry.fire()

    def pod_changed(self, members: MemberIndex, old: Pod | None, new: Pod | None) -> None:
        """A pod stays in the gang that it was made for; who has written another one on it should know."""
        if old is None or new is None or new.spec.node_name or _says(old) == _says(new):
            return
        id, said = members.find_id(new), self._recognition.identify(new)
        if id is None or said is None or extra_pod(id) or _whose(said) == _whose(id):
            return
        note = f"it stays a pod of {id}, for which it was made: delete it, and the one made in its stead is of {said}"
        self._stays[new.uid] = (new, note)
        self._aside.add(new.uid)

    async def _tell(self, pod: Pod | None, uid: str) -> float | None:
        if uid in self._stays:
            stays, note = self._stays.pop(uid)
            await self._pods.warn(stays, reason="StaysInGang", action="Scheduling", note=note)
        if pod is None:
            self._said.pop(uid, None)
            return None
        why = f"not scheduled yet: {self._recognition.why_unknown(uid)}"
        if self._said.get(uid) != why:
            await self._say(pod, why)
            self._said[uid] = why
        return _LOOK_AGAIN_S

    async def _say(self, pod: Pod, why: str) -> None:
        try:
            if not pod.spec.node_name:
                await self._pods.not_scheduled(pod, why)
        except NotFound:
            return
        await self._pods.warn(pod, reason="OwnerUnknown", action="Scheduling", note=why)


def _says(pod: Pod) -> tuple[object, ...]:
    """By what a pod may say where it belongs; the same objects while nobody has changed it."""
    notes = (names.ANNOTATION_JOB_ID, names.ANNOTATION_ASKED)
    return (pod.labels, {name: text for name, text in pod.annotations.items() if name not in notes})


def _whose(id: GangId) -> tuple[str, str, str]:
    """Units and generations are told apart once; what they are read from may change."""
    return (id.namespace, id.name, id.uid)

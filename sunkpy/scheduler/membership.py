"""What follows when pods find their gangs, wait for one, or leave it: gangs are woken, and people told."""

from __future__ import annotations

from typing import Final

import structlog

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
        self._log.info("extra", pod="/".join(pod.key), gang=str(base))
        entry = self._ledger.get(base)
        if entry is not None:
            entry.members.pop(pod.uid, None)
            entry.fire()

    async def _tell(self, pod: Pod | None, uid: str) -> float | None:
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

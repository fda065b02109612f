"""What waiting pods are told: the condition PodScheduled and an Event, the latest text alone, by workers of their own.

Pods that come by the thousand and cannot be placed cost two writes each, and no pod that can be placed waits for them.
A pod that is about to be bound is told nothing any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sunkpy.core.gang.actions import Report
from sunkpy.core.model.objects import Key, Pod
from sunkpy.kube.errors import NotFound
from sunkpy.runtime.queue import QueueMetrics
from sunkpy.scheduler.entries import GangEntry
from sunkpy.scheduler.latest import Latest
from sunkpy.scheduler.pod_writer import PodWriter

TELL_EACH_S = 10.0
_WAIT_TO_TELL_S = 2.0
_WORKERS = 6


class Reports:
    """Texts that are still to be told, by the uid of the pod. `find` gives a pod as the watch has it."""

    def __init__(self, pods: PodWriter, *, find: Callable[[Key], Pod | None], clock: Callable[[], float]) -> None:
        self._pods = pods
        self._clock = clock
        self._find = find
        self._texts: Latest[Report] = Latest("reports", self._tell, workers=_WORKERS)

    def add(self, entry: GangEntry, report: Report) -> None:
        """Tell a pod, in place of what it has not been told yet. What it has been told is not told again."""
        member, now = entry.member(report.pod), self._clock()
        if member.reported == report.message:
            return
        # The pods of a gang come one after the other, and each changes what all the others wait for.
        if (
            entry.is_several
            and not report.is_problem
            and now < max(entry.seen_at + _WAIT_TO_TELL_S, member.reported_at + TELL_EACH_S)
        ):
            entry.has_news = True
            return
        member.reported, member.reported_at = report.message, now
        self._texts.add(report.pod.uid, report)

    async def withdraw(self, pods: Iterable[Pod]) -> None:
        """Return when nothing is told to these pods any more."""
        await self._texts.withdraw(pods)

    async def run(self, metrics: QueueMetrics) -> None:
        """Tell until cancelled."""
        await self._texts.run(metrics)

    async def _tell(self, report: Report) -> None:
        pod = self._find(report.pod.key)
        if pod is None or pod.uid != report.pod.uid or pod.spec.node_name:
            return
        try:
            await self._pods.not_scheduled(pod, report.message)
        except NotFound:
            return
        say = self._pods.warn if report.is_problem else self._pods.tell
        reason = "FailedScheduling" if report.is_problem else "WaitingForSlurm"
        await say(pod, reason=reason, action="Scheduling", note=report.message)

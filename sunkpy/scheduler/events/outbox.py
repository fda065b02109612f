"""Everything that the scheduler says: Events, why a pod waits, which job it waits with, why it was evicted.

No pass waits for what is said here, an eviction least of all. Pods that come by the thousand and cannot be placed cost
two writes each, and no pod that can be placed waits for those.

A waiting pod gets the annotations of its job for the next leader, which asks Slurm for that job alone. A binding writes
them as well, and most pods are bound within seconds, so only pods that wait longer get them by themselves. A leader
that dies before leaves a job without a note; the next one finds it before it submits any (`scheduler.takeover`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from functools import partial

from sunkpy.core import names
from sunkpy.core.gang.actions import Report
from sunkpy.core.gang.job.terms import Asked
from sunkpy.core.model.objects import Key, Pod
from sunkpy.kube.errors import Conflict, NotFound
from sunkpy.kube.events import EventRecorder
from sunkpy.runtime.queue import QueueMetrics, Urgency
from sunkpy.scheduler.events.budgets import ViolatedBudgets
from sunkpy.scheduler.events.evictions import Eviction, EvictionEvents
from sunkpy.scheduler.events.late_writes import LateWrites
from sunkpy.scheduler.jobs.end_causes import EndCauses
from sunkpy.scheduler.pods.writer import PodWriter
from sunkpy.scheduler.record import Record

REPORT_EACH_S = 10.0
_FIRST_REPORT_S = 2.0
_WORKERS = 10
_REPORT, _JOB = "report", "job"


class Outbox:
    """Of one leader. `find` gives a pod as the watch has it."""

    def __init__(
        self,
        *,
        events: EventRecorder,
        pods: PodWriter,
        causes: EndCauses,
        budgets: ViolatedBudgets,
        find: Callable[[Key], Pod | None],
        clock: Callable[[], float],
        noted_after_s: float,
    ) -> None:
        self._noted_after_s = noted_after_s
        self._events = events
        self._pods = pods
        self._find = find
        self._clock = clock
        self._late: LateWrites[tuple[str, str]] = LateWrites("outbox", workers=_WORKERS, urgency=_urgency)
        self._budgets = budgets
        self._evictions = EvictionEvents(causes=causes, events=events, pods=pods, find=find)

    async def run(self, metrics: QueueMetrics) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._evictions.run())
            group.create_task(self._budgets.run())
            group.create_task(self._late.run(metrics))

    async def inform(self, pod: Pod, *, reason: str, action: str, note: str) -> None:
        """An Event about what went as it should."""
        await self._events.normal(pod, "Pod", reason=reason, action=action, note=note)

    async def warn(self, pod: Pod, *, reason: str, action: str, note: str) -> None:
        """An Event that a person should look at."""
        await self._events.warning(pod, "Pod", reason=reason, action=action, note=note)

    def explain(self, evictions: Iterable[Eviction]) -> None:
        """Events for pods that were evicted, which say by which job, once that has been found out."""
        evictions = tuple(evictions)
        self._evictions.add(evictions)
        self._budgets.preempted(each.pod for each in evictions if each.is_evicted and each.cause.is_preemption)

    def report(self, record: Record, report: Report) -> None:
        """Say why a pod waits, in its condition and an Event, unless it was said already."""
        member, now = record.member(report.pod), self._clock()
        if member.reported == report.message:
            return
        # The pods of a gang come one after the other, and each changes what all the others wait for.
        settles_at = max(record.seen_at + _FIRST_REPORT_S, member.reported_at + REPORT_EACH_S)
        if record.is_several and not report.is_problem and now < settles_at:
            record.has_news = True
            return
        member.reported, member.reported_at = report.message, now
        self._late.put((report.pod.uid, _REPORT), partial(self._write_report, report))

    def note_job(self, pods: Iterable[Pod], asked: Asked, *, after_s: float | None = None) -> None:
        """Annotate these pods with their job and what was asked for it, unless they are bound soon."""
        for pod in pods:
            write = partial(self._write_job, pod, asked)
            self._late.put((pod.uid, _JOB), write, after_s=self._noted_after_s if after_s is None else after_s)

    async def withdraw(self, pods: Iterable[Pod]) -> None:
        """These pods are about to be bound: return when nothing more is said of why or with which job they wait."""
        await self._late.withdraw((pod.uid, what) for pod in pods for what in (_REPORT, _JOB))

    def _waiting(self, pod: Pod) -> Pod | None:
        """The pod as it is now, if it still waits."""
        seen = self._find(pod.key)
        return seen if seen is not None and seen.uid == pod.uid and not seen.spec.node_name else None

    async def _write_report(self, report: Report) -> None:
        pod = self._waiting(report.pod)
        if pod is None:
            return
        try:
            await self._pods.not_scheduled(pod, report.message, needs_node=report.needs_node)
        except NotFound:
            return
        say = self.warn if report.is_problem else self.inform
        reason = "FailedScheduling" if report.is_problem else "WaitingForSlurm"
        await say(pod, reason=reason, action="Scheduling", note=report.message)

    async def _write_job(self, pod: Pod, asked: Asked) -> None:
        seen = self._waiting(pod)
        wanted = {names.ANNOTATION_JOB_ID: str(asked.job), names.ANNOTATION_ASKED: str(asked)}
        if seen is not None and any(seen.annotations.get(name) != text for name, text in wanted.items()):
            with contextlib.suppress(NotFound, Conflict):
                await self._pods.note(seen, wanted)


def _urgency(key: tuple[str, str]) -> Urgency:
    """The next leader waits for what is noted of jobs; nobody but people waits for reports."""
    return Urgency.SOON if key[1] == _JOB else Urgency.NONE

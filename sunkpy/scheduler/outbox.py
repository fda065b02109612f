"""Writes texts about pods for people and for the next leader: Events, the condition that says why a pod waits, and the
annotations that name the Slurm job with which a pod waits. The Events of evictions are written by
`scheduler.pods.evict`.

The writes are queued, so a decision about a gang does not wait for them; only a binding waits for a report or
annotation of its pods that is being written. Each pod that cannot be placed costs two writes, and a pod that can be
placed must not wait for the writes about thousands of others.

The annotations tell the next leader for which job it has to ask Slurm. A binding writes them as well, and most pods are
bound within seconds, so only pods that wait longer get them earlier. If a leader dies before it has written them, the
next leader finds the job in Slurm before it submits any job (`scheduler.takeover`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import cachetools
import structlog

from sunkpy.core import names
from sunkpy.core.gang.actions import Report
from sunkpy.core.gang.job.terms import AskedTerms
from sunkpy.core.model.objects import Key, KubeObject, Pod
from sunkpy.kube.errors import Conflict, NotFound
from sunkpy.runtime.queue import Urgency, WorkQueue, run_workers
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.record import GangRecord

_REPORT_EACH_S = 10.0
_FIRST_REPORT_S = 2.0
_WORKERS = 10
_MOST_UNREADABLE = 4096
CAUSES, PREEMPTORS, BUDGETS = "causes", "preemptors", "budgets"
_REPORT, _JOB, _UNREADABLE = "report", "job", "unreadable"

_About = tuple[str, str]
"""The key of a queued write: the object that it is about (such as a pod's uid), and the kind of text."""

Write = Callable[[], Awaitable[None]]


class Outbox:
    """Queues and writes Events, conditions and job annotations of pods; each leader has its own outbox. `find` returns
    the pod with a key, as the watch shows it; None if the watch shows none.
    """

    def __init__(self, leader: Leader, *, find: Callable[[Key], Pod | None]) -> None:
        self._leader = leader
        self._find = find
        self._queue: WorkQueue[_About] = WorkQueue("outbox", urgency=_urgency)
        self._newest: dict[_About, Write] = {}
        self._under_way: dict[_About, asyncio.Event] = {}
        self._unreadable: cachetools.LRUCache[tuple[str, str], str] = cachetools.LRUCache(_MOST_UNREADABLE)
        self._log = structlog.get_logger("unreadable")

    async def run(self) -> None:
        """Carry out the queued writes, and send the recorded Events, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._leader.events.run())
            metrics = self._leader.queues
            group.create_task(run_workers(self._queue, self._write_one, workers=_WORKERS, metrics=metrics))

    async def inform(self, pod: Pod, *, reason: str, action: str, note: str) -> None:
        """Record an Event of type Normal about a pod."""
        await self._leader.events.normal(pod, "Pod", reason=reason, action=action, note=note)

    async def warn(self, pod: Pod, *, reason: str, action: str, note: str) -> None:
        """Record an Event of type Warning about a pod, for something that a person should look at."""
        await self._leader.events.warning(pod, "Pod", reason=reason, action=action, note=note)

    def unreadable(self, kind: str, about: KubeObject, why: str) -> None:
        """Report an object that the scheduler ignores, because it cannot read or handle the object. `why` is a text for
        people.

        The object is logged and counted, and a pod also gets an Event. The same reason is not reported twice in a row
        for an object.
        """
        namespace, name = about.key
        key = (kind, about.uid or f"{namespace}/{name}")
        if self._unreadable.get(key) == why:
            return
        self._unreadable[key] = why
        self._log.warning("odd object", kind=kind, namespace=namespace, name=name, why=why)
        self._leader.metrics.odd_objects.labels(kind).inc()
        if kind == "Pod":
            pod, note = Pod(metadata=about.metadata), f"the scheduler ignores this pod: {why}"
            write = partial(self.warn, pod, reason="OddObject", action="Scheduling", note=note)
            self.later(f"{namespace}/{name}", _UNREADABLE, write)

    def later(self, about: str, what: str, write: Write, *, after_s: float = 0.0) -> None:
        """Queue a write, to be done at once or after `after_s` seconds. A write with the same object (`about`) and kind
        of text (`what`) that still waits is replaced. A write that fails is repeated until it succeeds.
        """
        key = (about, what)
        self._newest[key] = write
        if after_s:
            self._queue.add_after(key, after_s)
        else:
            self._queue.add(key)

    def report(self, record: GangRecord, report: Report) -> None:
        """Queue a report of why a pod waits, which sets the pod's condition and makes an Event. Nothing is queued if
        the last report of the pod had the same text. For a gang of several pods the report may be delayed, because each
        pod that comes changes the text.
        """
        member, now = record.member(report.pod), self._leader.clock()
        if member.reported == report.message:
            return
        due_at = now
        # The pods of a gang come one after the other, and each changes what all the others wait for.
        if record.is_several and not report.is_problem:
            settles_at = max(record.seen_at + _FIRST_REPORT_S, member.reported_at + _REPORT_EACH_S)
            due_at = member.reported_at if member.reported_at > now else max(now, settles_at)
        member.reported, member.reported_at = report.message, due_at
        self.later(report.pod.uid, _REPORT, partial(self._write_report, report), after_s=due_at - now)

    def note_job(self, pods: Iterable[Pod], asked: AskedTerms, *, at_once: bool = False) -> None:
        """Queue annotations for pods that wait with a Slurm job: the job's ID, and the terms that were requested for
        the job. Unless `at_once`, they are written after a pause. A pod that is bound before the write gets none.
        """
        after_s = 0.0 if at_once else self._leader.settings.times.noted_after_s
        for pod in pods:
            self.later(pod.uid, _JOB, partial(self._write_job, pod, asked), after_s=after_s)

    async def withdraw(self, pods: Iterable[Pod]) -> None:
        """Drop the queued reports and job annotations of these pods, because the pods are about to be bound. Return
        when no such write about them is still being carried out.
        """
        for key in [(pod.uid, what) for pod in pods for what in (_REPORT, _JOB)]:
            self._newest.pop(key, None)
            if (under_way := self._under_way.get(key)) is not None:
                await under_way.wait()

    async def _write_one(self, key: _About) -> None:
        write = self._newest.get(key)
        if write is None:
            return
        done = self._under_way[key] = asyncio.Event()
        try:
            await write()
        finally:
            del self._under_way[key]
            done.set()
        if self._newest.get(key) is write:
            del self._newest[key]

    def seen(self, pod: Pod) -> Pod | None:
        """Return the pod as the watch shows it now; None if the pod is gone."""
        seen = self._find(pod.key)
        return seen if seen is not None and seen.uid == pod.uid else None

    def _waiting(self, pod: Pod) -> Pod | None:
        """Return the pod as the watch shows it now; None if the pod is gone or has a node."""
        seen = self.seen(pod)
        return seen if seen is not None and not seen.spec.node_name else None

    async def _write_report(self, report: Report) -> None:
        pod = self._waiting(report.pod)
        if pod is None:
            return
        try:
            await self._leader.pods.not_scheduled(pod, report.message, needs_node=report.needs_node)
        except NotFound:
            return
        say = self.warn if report.is_problem else self.inform
        reason = "FailedScheduling" if report.is_problem else "WaitingForSlurm"
        await say(pod, reason=reason, action="Scheduling", note=report.message)

    async def _write_job(self, pod: Pod, asked: AskedTerms) -> None:
        seen = self._waiting(pod)
        wanted = {names.ANNOTATION_JOB_ID: str(asked.job), names.ANNOTATION_ASKED: str(asked)}
        if seen is not None and any(seen.annotations.get(name) != text for name, text in wanted.items()):
            with contextlib.suppress(NotFound, Conflict):
                await self._leader.pods.note(seen, wanted)


def _urgency(key: _About) -> Urgency:
    """Return how urgent a queued write is. Job annotations, which the next leader needs, and Events of evictions go
    before reports of why pods wait.
    """
    return Urgency.SOON if key[1] in (_JOB, CAUSES, PREEMPTORS, BUDGETS) else Urgency.NONE

"""Which job a pod waits with, and for what that was asked, noted on the pod: for people, and for the next leader, who
asks Slurm for that job alone.

A binding notes the job as well, and most pods are bound within a few seconds. So only pods that wait by then are
noted: a write less for each pod of a burst, and none between a job that was granted at once and its binding. A leader
that dies meanwhile leaves a job that was never noted, which the next one finds before it submits any (decision 0047).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.terms import Asked
from sunkpy.core.model.objects import Key, Pod
from sunkpy.kube.errors import Conflict, NotFound
from sunkpy.runtime.queue import QueueMetrics
from sunkpy.scheduler.latest import Latest
from sunkpy.scheduler.pod_writer import PodWriter

NOTED_AFTER_S = 5.0
_WORKERS = 4


class _Note(msgspec.Struct, frozen=True):
    pod: Pod
    asked: Asked


class JobNotes:
    """Notes that are still to be written. `find` gives a pod as the watch has it."""

    def __init__(self, pods: PodWriter, *, find: Callable[[Key], Pod | None]) -> None:
        self._pods = pods
        self._find = find
        self._notes: Latest[_Note] = Latest("notes", self._write, workers=_WORKERS)

    def add(self, pods: Iterable[Pod], asked: Asked, *, after_s: float | None = None) -> None:
        """Note on these pods which job is theirs, and for what it was asked, unless they are bound soon."""
        for pod in pods:
            self._notes.add(pod.uid, _Note(pod, asked), after_s=NOTED_AFTER_S if after_s is None else after_s)

    async def withdraw(self, pods: Iterable[Pod]) -> None:
        """Return when nothing is noted on these pods any more: their binding does."""
        await self._notes.withdraw(pods)

    async def run(self, metrics: QueueMetrics) -> None:
        """Note until cancelled."""
        await self._notes.run(metrics)

    async def _write(self, note: _Note) -> None:
        pod = self._find(note.pod.key)
        if pod is None or pod.uid != note.pod.uid or pod.spec.node_name:
            return
        wanted = {names.ANNOTATION_JOB_ID: str(note.asked.job), names.ANNOTATION_ASKED: str(note.asked)}
        if any(pod.annotations.get(name) != text for name, text in wanted.items()):
            with contextlib.suppress(NotFound, Conflict):
                await self._pods.note(pod, wanted)

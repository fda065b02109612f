"""Who tells people what: the writer of pods, and what is told by workers of its own, for nobody else waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from sunkpy.core.model.objects import Key, Pod
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.runtime.queue import QueueMetrics
from sunkpy.scheduler.end_causes import EndCauses
from sunkpy.scheduler.farewells import Farewells
from sunkpy.scheduler.job_notes import JobNotes
from sunkpy.scheduler.pod_writer import PodWriter
from sunkpy.scheduler.reports import Reports
from sunkpy.slurm import Slurm


class Notices:
    """Of one leader. `instance` is who says it, `find` gives a pod as the watch has it."""

    def __init__(
        self,
        kube: Kube,
        slurm: Slurm,
        *,
        instance: str,
        find: Callable[[Key], Pod | None],
        clock: Callable[[], float],
    ) -> None:
        self._events = EventRecorder(kube, component="scheduler", instance=instance)
        self.pods = PodWriter(kube, self._events)
        self.causes = EndCauses(slurm)
        self.farewells = Farewells(causes=self.causes, pods=self.pods, find=find)
        self.reports = Reports(self.pods, find=find, clock=clock)
        self.job_notes = JobNotes(self.pods, find=find)

    async def run(self, metrics: QueueMetrics) -> None:
        """Tell until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self.farewells.run())
            group.create_task(self.reports.run(metrics))
            group.create_task(self.job_notes.run(metrics))

    async def withdraw(self, pods: Iterable[Pod]) -> None:
        """Return when nothing is told to these pods any more, and nothing noted on them: they are about to be bound."""
        pods = tuple(pods)
        await self.reports.withdraw(pods)
        await self.job_notes.withdraw(pods)

"""Who tells people what: the writer of pods, and what is told by workers of its own, for nobody else waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sunkpy.core.model.objects import Key, Pod
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.runtime.queue import QueueMetrics
from sunkpy.scheduler.end_causes import EndCauses
from sunkpy.scheduler.farewells import Farewells
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

    async def run(self, metrics: QueueMetrics) -> None:
        """Tell until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self.farewells.run())
            group.create_task(self.reports.run(metrics))

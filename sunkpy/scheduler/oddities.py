"""Objects that cannot be read, or over which something here fails: told to their people, and in the way of nobody."""

from __future__ import annotations

from typing import Final

import cachetools
import structlog

from sunkpy.core.model.objects import Key, KubeObject, Pod
from sunkpy.kube.errors import Forbidden, Invalid, NotFound
from sunkpy.runtime.queue import QueueMetrics, WorkQueue, run_workers
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.pod_writer import PodWriter

_MOST: Final = 4096
_IN_VAIN: Final = (NotFound, Forbidden, Invalid)
"""What is refused once is refused again: the namespace is gone, or about to."""


class Oddities:
    """Each is logged and counted once for each reason; a pod gets an Event."""

    def __init__(self, *, pods: PodWriter, metrics: SchedulerMetrics) -> None:
        self._pods = pods
        self._metrics = metrics
        self._said: cachetools.LRUCache[tuple[str, str], str] = cachetools.LRUCache(_MOST)
        self._to_tell: dict[Key, tuple[Pod, str]] = {}
        self._queue: WorkQueue[Key] = WorkQueue("odd-pods")
        self._log = structlog.get_logger("oddities")

    async def run(self, metrics: QueueMetrics | None = None) -> None:
        """Write Events until cancelled."""
        await run_workers(self._queue, self._tell, workers=1, metrics=metrics)

    def note(self, kind: str, about: KubeObject, why: str) -> None:
        """An object of that kind is left aside, or as it was; `why` is for people."""
        namespace, name = about.key
        key = (kind, about.uid or f"{namespace}/{name}")
        if self._said.get(key) == why:
            return
        self._said[key] = why
        self._log.warning("odd object", kind=kind, namespace=namespace, name=name, why=why)
        self._metrics.odd_objects.labels(kind).inc()
        if kind == "Pod":
            self._to_tell[about.key] = (Pod(metadata=about.metadata), why)
            self._queue.add(about.key)

    async def _tell(self, key: Key) -> None:
        told = self._to_tell.get(key)
        if told is None:
            return
        pod, why = told
        try:
            await self._pods.insist(pod, reason="OddObject", action="Scheduling", note=f"it is left as it is: {why}")
        except _IN_VAIN as error:
            self._log.warning("event not recorded", namespace=key[0], name=key[1], error=str(error))
        if self._to_tell.get(key) is told:
            del self._to_tell[key]

"""Objects that cannot be read, or that the scheduler fails to handle: it says so, and goes on with all others."""

from __future__ import annotations

from functools import partial
from typing import Final

import cachetools
import structlog

from sunkpy.core.model.objects import Key, KubeObject, Pod
from sunkpy.kube.errors import Forbidden, Invalid, NotFound
from sunkpy.kube.events import EventRecorder
from sunkpy.runtime.queue import QueueMetrics
from sunkpy.scheduler.events.late_writes import LateWrites
from sunkpy.scheduler.metrics import SchedulerMetrics

_MOST: Final = 4096
_FINAL: Final = (NotFound, Forbidden, Invalid)
"""What is refused once is refused again: the namespace is gone, or about to."""


class UnreadableObjects:
    """Each is logged and counted once for each reason; a pod gets an Event."""

    def __init__(self, *, events: EventRecorder, metrics: SchedulerMetrics) -> None:
        self._events = events
        self._metrics = metrics
        self._reasons: cachetools.LRUCache[tuple[str, str], str] = cachetools.LRUCache(_MOST)
        self._late: LateWrites[Key] = LateWrites("unreadable-pods", workers=1)
        self._log = structlog.get_logger("unreadable")

    async def run(self, metrics: QueueMetrics | None = None) -> None:
        """Write Events until cancelled."""
        await self._late.run(metrics)

    def note(self, kind: str, about: KubeObject, why: str) -> None:
        """An object of that kind is left alone; `why` is for people."""
        namespace, name = about.key
        key = (kind, about.uid or f"{namespace}/{name}")
        if self._reasons.get(key) == why:
            return
        self._reasons[key] = why
        self._log.warning("odd object", kind=kind, namespace=namespace, name=name, why=why)
        self._metrics.odd_objects.labels(kind).inc()
        if kind == "Pod":
            self._late.put(about.key, partial(self._warn, Pod(metadata=about.metadata), why))

    async def _warn(self, pod: Pod, why: str) -> None:
        try:
            note = f"left alone: {why}"
            await self._events.insist(pod, "Pod", reason="OddObject", action="Scheduling", note=note)
        except _FINAL as error:
            self._log.warning("event not recorded", pod="/".join(pod.key), error=str(error))

"""A work queue of keys, as in client-go: a key waits once, has one worker at a time, and comes back on failure.

Reconciles are level-triggered: the key says *what* to look at, never what happened, so many changes cost one pass.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sunkpy.core.model.times import backoff_s

K = TypeVar("K", bound=Hashable)
Reconcile = Callable[[K], Awaitable[float | None]]
"""Works on one key; returns after how many seconds to look again, or None when a change will tell."""

_RETRY_FIRST_S, _RETRY_LAST_S = 0.05, 30.0


class QueueMetrics:
    """Counters of all queues of a process, labelled by queue name; `clock` says how long a reconcile took."""

    def __init__(self, registry: CollectorRegistry, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._depth = Gauge("sunkpy_queue_depth", "Keys waiting", ["queue"], registry=registry)
        self._reconciles = Counter("sunkpy_reconcile", "Reconciles by result", ["queue", "result"], registry=registry)
        self._seconds = Histogram("sunkpy_reconcile_seconds", "Time of one reconcile", ["queue"], registry=registry)

    def reconciled(self, queue: WorkQueue[K], result: str, *, started_s: float) -> None:
        """One reconcile has ended, `ok` or `error`."""
        self._reconciles.labels(queue.name, result).inc()
        self._seconds.labels(queue.name).observe(self.clock() - started_s)
        self._depth.labels(queue.name).set(len(queue))


class WorkQueue(Generic[K]):
    """Keys to work on. All methods are for the event loop's thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()
        self._working: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, tuple[float, asyncio.TimerHandle]] = {}
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: K) -> None:
        """Work on the key as soon as possible; once more afterwards if it is being worked on now."""
        self._cancel_timer(key)
        if key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: K, delay_s: float) -> None:
        """Work on the key after a while; the earlier of two delays holds."""
        loop = asyncio.get_running_loop()
        due = loop.time() + delay_s
        timer = self._timers.get(key)
        if timer is not None and timer[0] <= due:
            return
        self._cancel_timer(key)
        self._timers[key] = (due, loop.call_later(delay_s, self.add, key))

    def add_failed(self, key: K) -> float:
        """Work on the key again after a delay that doubles with each failure; the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay_s = backoff_s(failures, first_s=_RETRY_FIRST_S, last_s=_RETRY_LAST_S)
        self.add_after(key, delay_s)
        return delay_s

    def forget_failures(self, key: K) -> None:
        """The key went well: the next failure starts from the shortest delay."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key; call `done` with it afterwards."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._working.add(key)
        return key

    def done(self, key: K) -> None:
        """The worker has let go of the key: it may be given out again, and is if it was added meanwhile."""
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _cancel_timer(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer[1].cancel()


async def run_workers(
    queue: WorkQueue[K], reconcile: Reconcile[K], *, workers: int = 4, metrics: QueueMetrics | None = None
) -> None:
    """Work on keys until cancelled. A failing key is logged and retried; it never stops the others."""
    counted = metrics or QueueMetrics(CollectorRegistry())
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(_work(queue, reconcile, counted))


async def _work(queue: WorkQueue[K], reconcile: Reconcile[K], metrics: QueueMetrics) -> None:
    while True:
        key = await queue.get()
        started_s = metrics.clock()
        try:
            result = await _reconcile_once(queue, reconcile, key)
        finally:
            queue.done(key)
        metrics.reconciled(queue, result, started_s=started_s)


async def _reconcile_once(queue: WorkQueue[K], reconcile: Reconcile[K], key: K) -> str:
    try:
        again_s = await reconcile(key)
    except Exception as error:
        retry_s = queue.add_failed(key)
        text = f"{type(error).__name__}: {error}"
        log = structlog.get_logger("queue").bind(queue=queue.name)
        log.warning("reconcile failed", key=key, retry_in_s=round(retry_s, 2), error=text)
        log.debug("trace", exc_info=error)
        return "error"
    queue.forget_failures(key)
    if again_s is not None:
        queue.add_after(key, again_s)
    return "ok"

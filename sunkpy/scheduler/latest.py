"""What is to be written on pods that wait: the latest of each pod alone, by workers of their own.

Nobody who has something to do waits for these writes, and who is about to bind a pod takes back what was not written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

from sunkpy.core.model.objects import Pod
from sunkpy.runtime.queue import QueueMetrics, WorkQueue, run_workers

T = TypeVar("T")


class Latest(Generic[T]):
    """Values that are still to be written, by the uid of the pod. `write` is repeated until it does not fail."""

    def __init__(self, name: str, write: Callable[[T], Awaitable[None]], *, workers: int) -> None:
        self._write = write
        self._workers = workers
        self._queue: WorkQueue[str] = WorkQueue(name)
        self._latest: dict[str, T] = {}
        self._writing: dict[str, asyncio.Event] = {}

    def add(self, uid: str, value: T, *, after_s: float = 0.0) -> None:
        """Write this, in place of what was not written yet, as soon as possible or after a while."""
        self._latest[uid] = value
        if after_s:
            self._queue.add_after(uid, after_s)
        else:
            self._queue.add(uid)

    async def withdraw(self, pods: Iterable[Pod]) -> None:
        """Return when nothing is written to these pods any more."""
        for pod in pods:
            self._latest.pop(pod.uid, None)
            if (writing := self._writing.get(pod.uid)) is not None:
                await writing.wait()

    async def run(self, metrics: QueueMetrics) -> None:
        """Write until cancelled."""
        await run_workers(self._queue, self._write_one, workers=self._workers, metrics=metrics)

    async def _write_one(self, uid: str) -> None:
        value = self._latest.get(uid)
        if value is None:
            return
        written = self._writing[uid] = asyncio.Event()
        try:
            await self._write(value)
        finally:
            del self._writing[uid]
            written.set()
        if self._latest.get(uid) is value:
            del self._latest[uid]

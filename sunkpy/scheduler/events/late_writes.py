"""Writes that nothing waits for: workers write only the newest of each key, and repeat it until it succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from sunkpy.runtime.queue import QueueMetrics, Urgency, WorkQueue, run_workers

Key = tuple[str, str]
"""About what or whom something is written, and which of the things about it."""

Write = Callable[[], Awaitable[None]]


class LateWrites:
    """Writes that are not done yet. `name`: of their queue, in the metrics; `urgency`: which keys go first."""

    def __init__(self, name: str, *, workers: int, urgency: Callable[[Key], Urgency]) -> None:
        self._workers = workers
        self._queue: WorkQueue[Key] = WorkQueue(name, urgency=urgency)
        self._newest: dict[Key, Write] = {}
        self._under_way: dict[Key, asyncio.Event] = {}

    def put(self, key: Key, write: Write, *, after_s: float = 0.0) -> None:
        """Write this in place of what was put under the key before, as soon as possible or after a while."""
        self._newest[key] = write
        if after_s:
            self._queue.add_after(key, after_s)
        else:
            self._queue.add(key)

    async def withdraw(self, keys: Iterable[Key]) -> None:
        """Drop what is not written yet; return when nothing is being written under these keys."""
        for key in keys:
            self._newest.pop(key, None)
            if (under_way := self._under_way.get(key)) is not None:
                await under_way.wait()

    async def run(self, metrics: QueueMetrics) -> None:
        """Write until cancelled."""
        await run_workers(self._queue, self._write_one, workers=self._workers, metrics=metrics)

    async def _write_one(self, key: Key) -> None:
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

"""Walks over many items, and lets other tasks of the event loop run now and then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

TURN_S: Final = 0.01


class Turns:
    """Lets other tasks run while one task has much to do and waits for nothing; `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._over_at = clock() + TURN_S

    async def rest(self) -> None:
        """Let other tasks run, if this task has run for `TURN_S` without a pause."""
        if self._clock() >= self._over_at:
            await asyncio.sleep(0)
            self._over_at = self._clock() + TURN_S


async def in_turns(items: Iterable[T], *, clock: Callable[[], float] = time.perf_counter) -> AsyncIterator[T]:
    """Yield the items, and let other tasks run now and then. The items must not change meanwhile: pass a copy."""
    turns = Turns(clock)
    for item in items:
        yield item
        await turns.rest()

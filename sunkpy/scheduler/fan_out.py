"""Several requests at once, for gangs of many pods: one after the other would make a hand-over last as long as all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

Call = Callable[[], Awaitable[None]]

_AT_ONCE = 16


async def fan_out(calls: Iterable[Call], *, at_once: int = _AT_ONCE) -> None:
    """Make all calls, a few at a time. One that fails keeps no other from being made.

    Raises:
        Exception: the first error, when all have been made.
    """
    limit = asyncio.Semaphore(at_once)

    async def make(call: Call) -> None:
        async with limit:
            await call()

    results = await asyncio.gather(*(make(call) for call in calls), return_exceptions=True)
    for result in results:
        if result is not None:
            raise result

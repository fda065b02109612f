"""Makes several requests at once, so that those for all pods of a gang are not made one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

Call = Callable[[], Awaitable[None]]

_AT_ONCE = 16


async def fan_out(calls: Iterable[Call], *, at_once: int = _AT_ONCE) -> None:
    """Make all calls, a few at a time. If one fails, the others are made nevertheless.

    Raises:
        Exception: the first error, after all calls were made.
    """
    calls = tuple(calls)
    if len(calls) == 1:  # most gangs are one pod, and a task for each of their requests is a tenth of all time
        await calls[0]()
        return
    limit = asyncio.Semaphore(at_once)

    async def make(call: Call) -> None:
        async with limit:
            await call()

    results = await asyncio.gather(*(make(call) for call in calls), return_exceptions=True)
    for result in results:
        if result is not None:
            raise result

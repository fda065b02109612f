"""Makes many writes of one kind, several at a time, so that a slow one does not hold up the others. After a failure, no
other write is begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from sunkpy.kube import errors

T = TypeVar("T")

MOST_AT_ONCE = 24
"""The most writes under way at once: three quarters of the connections to the apiserver; the rest is for writes of
other keys. With 20 ms for each answer this allows a thousand writes a second, more than an apiserver does for one
client.
"""


async def work_through(items: Sequence[T], act: Callable[[T], Awaitable[bool]], *, at_first: int) -> None:
    """Call `act` with all items, several at once. If one fails, no other is begun, and those under way are finished.

    Args:
        items: what to act on.
        act: returns True if it went well. Then one more may be under way at once, up to `MOST_AT_ONCE`: 1, 2, 4 … as
            answers come. So what is always refused is refused only once if `at_first` is 1.
        at_first: how many may be under way at once before anything went well.

    Raises:
        KubeError: the first one that `act` raised.
    """
    waiting = iter(items)
    failed: list[errors.KubeError] = []
    hired, is_over = min(at_first, MOST_AT_ONCE, len(items)), False
    async with asyncio.TaskGroup() as group:

        async def work() -> None:
            nonlocal is_over, hired
            while not is_over and (found := next(waiting, None)) is not None:
                try:
                    is_over = not await act(found) or is_over
                except errors.KubeError as error:
                    failed.append(error)
                    is_over = True
                if not is_over and hired < min(MOST_AT_ONCE, len(items)):
                    hired += 1
                    group.create_task(work())

        for _ in range(hired):
            group.create_task(work())
    if failed:
        raise failed[0]

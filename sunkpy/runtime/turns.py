"""A walk over many items that gives other tasks of the event loop a turn now and then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

_A_TURN = 200


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """The items; a mapping that may change meanwhile is to be copied first."""
    for number, item in enumerate(items):
        if number % _A_TURN == 0:
            await asyncio.sleep(0)
        yield item

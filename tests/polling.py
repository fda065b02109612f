"""Ask Slurm until it is so: it has no watch. The one place of the tests that polls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def until(check: Callable[[], Awaitable[bool]], *, timeout_s: float, what: str, every_s: float = 0.1) -> None:
    """Wait until `check` answers yes.

    Raises:
        TimeoutError: it never did; the text names `what`.
    """
    try:
        async with asyncio.timeout(timeout_s):
            while not await check():  # noqa: ASYNC110
                await asyncio.sleep(every_s)
    except TimeoutError:
        raise TimeoutError(f"{what}: not so after {timeout_s:g} s") from None

"""Ask Slurm, which has no watch, until it is so; and who listens. The one place of the tests that polls."""

from __future__ import annotations

import asyncio
import socket
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


def listens(port: int) -> bool:
    """Somebody takes connections on this port of loopback."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True

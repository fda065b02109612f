"""The scheduler as it is, in a process that notes how long its event loop was held: `… CONFIG NOTES`.

A hold is the processor time of one turn of the loop: everybody else in the process waited that long at least, however
busy the machine is.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from types import MethodType

import msgspec

from sunkpy.scheduler.main import main

_WORTH_NOTING_S = 0.01


class Hold(msgspec.Struct, frozen=True):
    """When it ended (monotonic, the same for all processes), how long it was, what ran."""

    at_s: float
    held_s: float
    what: str


def watch(notes: list[Hold]) -> None:
    """Time every turn of every event loop of this process from now on."""
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began_s = time.thread_time()
        run(handle)
        held_s = time.thread_time() - began_s
        if held_s >= _WORTH_NOTING_S:
            notes.append(Hold(time.monotonic(), held_s, _name(handle)))

    asyncio.Handle._run = timed  # type: ignore[method-assign]


def _name(handle: asyncio.Handle) -> str:
    callback = handle._callback  # type: ignore[attr-defined]
    owner = callback.__self__ if isinstance(callback, MethodType) or hasattr(callback, "__self__") else None
    return str(owner.get_coro()) if isinstance(owner, asyncio.Task) else str(callback)


if __name__ == "__main__":
    config, notes_file = map(Path, sys.argv[1:])
    noted: list[Hold] = []
    watch(noted)
    try:
        main(config)
    finally:
        notes_file.write_bytes(msgspec.json.encode(noted))

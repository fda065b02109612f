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
_MARK_EACH_S = 0.002


class Hold(msgspec.Struct, frozen=True):
    """When it ended (monotonic, the same for all processes), how long it was, what ran."""

    at_s: float
    held_s: float
    what: str


def watch(notes: list[Hold]) -> None:
    """Note the long turns of every event loop of this process from now on.

    The clock of the processor is a call of the kernel, so it is read after turns that took long by the other clock, and
    now and then: a hold may have counted in the turns of some milliseconds before it.
    """
    run = asyncio.Handle._run
    used_s = marked_s = 0.0

    def timed(handle: asyncio.Handle) -> None:
        nonlocal used_s, marked_s
        began_s = time.monotonic()
        if began_s - marked_s > _MARK_EACH_S:
            used_s, marked_s = time.thread_time(), began_s
        run(handle)
        now_s = time.monotonic()
        if now_s - began_s >= _WORTH_NOTING_S:
            held_s = min(time.thread_time() - used_s, now_s - began_s)
            used_s, marked_s = used_s + held_s, now_s
            if held_s >= _WORTH_NOTING_S:
                notes.append(Hold(now_s, held_s, _name(handle)))

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

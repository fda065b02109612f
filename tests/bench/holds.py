"""How long an event loop was held: the processor time of one turn. All other tasks of the process waited at least that
long, however busy the machine is.

The module needs nothing of this repository, so it can be loaded into any Python process.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterable
from types import MethodType

import msgspec

_WORTH_NOTING_S = 0.01
_MARK_EACH_S = 0.002
_PREFIX = "held: "


class Hold(msgspec.Struct, frozen=True):
    """When a turn of the event loop ended (monotonic, the same for all processes), how long it was, and what ran."""

    at_s: float
    held_s: float
    what: str


def watch(note: Callable[[Hold], None], *, from_s: float = _WORTH_NOTING_S) -> None:
    """From now on call `note` for each turn of any event loop of this process that takes at least `from_s`.

    Reading the processor's clock is a system call. So it is read only after turns that were long by the other clock,
    and now and then. A hold may therefore include the turns of some milliseconds before it.
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
        if now_s - began_s >= from_s:
            held_s = min(time.thread_time() - used_s, now_s - began_s)
            used_s, marked_s = used_s + held_s, now_s
            if held_s >= from_s:
                note(Hold(now_s, held_s, _name(handle)))

    asyncio.Handle._run = timed  # type: ignore[assignment, method-assign]


def _name(handle: asyncio.Handle) -> str:
    callback = handle._callback  # type: ignore[attr-defined]
    owner = callback.__self__ if isinstance(callback, MethodType) or hasattr(callback, "__self__") else None
    return str(owner.get_coro()) if isinstance(owner, asyncio.Task) else str(callback)


def longest(holds: Iterable[Hold]) -> Hold:
    """Return the longest hold; a hold of 0 s if there are none."""
    return max(holds, key=lambda hold: hold.held_s, default=Hold(0.0, 0.0, "nothing"))


def log(hold: Hold) -> None:
    sys.stderr.write(f"{_PREFIX}{msgspec.json.encode(hold).decode()}\n")


def read(log: str) -> list[Hold]:
    lines = (line.removeprefix(_PREFIX) for line in log.splitlines() if line.startswith(_PREFIX))
    return [msgspec.json.decode(line, type=Hold) for line in lines]

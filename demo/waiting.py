"""Wait until something is so, and say what was seen last when it never is. The one place of the demo that sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from demo.command import CommandFailed

T = TypeVar("T")


class NotYet(Exception):
    """Raised by a check: the text is the state that was seen."""


class NeverSo(Exception):
    """What was waited for did not happen in time."""


def wait(until: Callable[[], T], *, timeout_s: float, what: str, every_s: float = 0.25) -> T:
    """First true value that `until` returns.

    A check says "not yet" by a false value, or better by raising `NotYet` with what it saw; a command that fails
    counts as not yet, because a pod may be starting just now.

    Raises:
        NeverSo: still not so after `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            value = until()
            seen = repr(value)
            if value:
                return value
        except (NotYet, CommandFailed) as error:
            seen = str(error)
        if time.monotonic() >= deadline:
            raise NeverSo(f"{what}: not so after {timeout_s:.0f} s; last seen: {seen}")
        time.sleep(every_s)

"""Wait until something is so. The one place of devcluster, demo and tests that sleeps in a loop."""

import time
from collections.abc import Callable
from typing import TypeVar

from devcluster.shell import CommandFailed

T = TypeVar("T")


class NotYet(Exception):
    """Raised by a check: the text is the state that was seen."""


class NeverSo(Exception):
    """What was waited for did not happen in time."""


def wait_until(condition: Callable[[], T], *, timeout_s: float, every_s: float = 0.05) -> T | None:
    """First true value of ``condition``; None when ``timeout_s`` have passed. What it raises ends the wait."""
    end = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() >= end:
            return None
        time.sleep(every_s)
    return found


def wait(until: Callable[[], T], *, timeout_s: float, what: str, every_s: float = 0.25) -> T:
    """First true value that ``until`` returns.

    A check says "not yet" by a false value, or better by raising ``NotYet`` with what it saw; a command that fails
    counts as not yet, because a pod may be starting just now.

    Raises:
        NeverSo: still not so after ``timeout_s``; says what was seen last.
    """
    seen = ""

    def look() -> T | None:
        nonlocal seen
        try:
            value = until()
        except (NotYet, CommandFailed) as error:
            seen = str(error)
            return None
        seen = repr(value)
        return value

    found = wait_until(look, timeout_s=timeout_s, every_s=every_s)
    if found is None:
        raise NeverSo(f"{what}: not so after {timeout_s:.0f} s; last seen: {seen}")
    return found


def wait_until_equal(read: Callable[[], T], wanted: T, *, timeout_s: float, what: str) -> None:
    """Wait until a read gives the wanted value, and show the last one when it never does."""

    def check() -> bool:
        got = read()
        if got != wanted:
            raise NotYet(f"{got!r}, wanted {wanted!r}")
        return True

    wait(check, timeout_s=timeout_s, what=what)

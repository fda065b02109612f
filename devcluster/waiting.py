"""Wait until something is so. The one place of devcluster, demo and tests that sleeps in a loop."""

import time
from collections.abc import Callable, Collection
from typing import TypeVar

from devcluster.shell import CommandFailed

T = TypeVar("T")

_SHORTEST_S, _LONGEST_S = 0.1, 1.0
_OF_WAITED = 0.1


class NotYet(Exception):
    """Raised by a check: the text is the state that was seen."""


class NeverSo(Exception):
    """What was waited for did not happen in time."""


def wait_until(condition: Callable[[], T], *, timeout_s: float, every_s: float | None = None) -> T | None:
    """First true value of ``condition``; None when ``timeout_s`` have passed. What it raises ends the wait.

    Without ``every_s`` it looks less often the longer it waits, down to once a second: each look takes processor time.
    """
    begun = time.monotonic()
    while not (found := condition()):
        waited_s = time.monotonic() - begun
        if waited_s >= timeout_s:
            return None
        growing_s = min(max(waited_s * _OF_WAITED, _SHORTEST_S), _LONGEST_S)
        time.sleep(growing_s if every_s is None else every_s)
    return found


def wait(until: Callable[[], T], *, timeout_s: float, what: str, every_s: float | None = None) -> T:
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


def persist(step: Callable[[], T], *, timeout_s: float, what: str) -> T:
    """Do a step, each second again while its command fails; what it returned."""
    return wait(lambda: (step(),), timeout_s=timeout_s, what=what, every_s=1.0)[0]


def wait_until_none(
    read: Callable[[], Collection[str]], *, timeout_s: float, what: str, every_s: float | None = None
) -> bool:
    """Wait until a read finds nothing any more, and show what is left when it never does."""

    def check() -> bool:
        if left := read():
            raise NotYet("; ".join(left))
        return True

    return wait(check, timeout_s=timeout_s, what=what, every_s=every_s)


def wait_until_equal(read: Callable[[], T], wanted: T, *, timeout_s: float, what: str) -> None:
    """Wait until a read gives the wanted value, and show the last one when it never does."""

    def check() -> bool:
        got = read()
        if got != wanted:
            raise NotYet(f"{got!r}, wanted {wanted!r}")
        return True

    wait(check, timeout_s=timeout_s, what=what)

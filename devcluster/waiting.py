"""Waits until a condition is true. devcluster, demo and tests call it instead of sleeping in loops of their own."""

import time
from collections.abc import Callable, Collection
from typing import TypeVar

from devcluster.shell import CommandFailed

T = TypeVar("T")

_SHORTEST_S, _LONGEST_S = 0.1, 1.0
_OF_WAITED = 0.1


class NotYet(Exception):
    """Raised by a check that does not hold yet; the text is the state that it saw."""


class NeverSo(Exception):
    """A condition did not become true in time."""


def wait_until(condition: Callable[[], T], *, timeout_s: float, every_s: float | None = None) -> T | None:
    """Wait for the first true value of ``condition``, and return it; None after ``timeout_s``. Its errors end the wait.

    Without ``every_s`` the pauses grow, up to a second, because each check takes CPU time.
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
    """Wait for the first true value of ``until``, and return it.

    A false value, ``NotYet`` and ``CommandFailed`` mean "not yet": a command may fail while a pod starts.

    Raises:
        NeverSo: no true value came within ``timeout_s``; the text has the last state.
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
    """Do a step, again each second while its command fails, and return its result."""
    return wait(lambda: (step(),), timeout_s=timeout_s, what=what, every_s=1.0)[0]


def wait_until_none(
    read: Callable[[], Collection[str]], *, timeout_s: float, what: str, every_s: float | None = None
) -> bool:
    """Wait until ``read`` returns an empty collection; the error shows what is left."""

    def check() -> bool:
        if left := read():
            raise NotYet("; ".join(left))
        return True

    return wait(check, timeout_s=timeout_s, what=what, every_s=every_s)


def wait_until_equal(read: Callable[[], T], wanted: T, *, timeout_s: float, what: str) -> None:
    """Wait until ``read`` returns the wanted value; the error shows the last one."""

    def check() -> bool:
        got = read()
        if got != wanted:
            raise NotYet(f"{got!r}, wanted {wanted!r}")
        return True

    wait(check, timeout_s=timeout_s, what=what)

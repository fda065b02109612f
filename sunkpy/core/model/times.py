"""Times as Kubernetes writes them (RFC 3339 in UTC), and delays that double."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

LATEST: Final = datetime.max.replace(tzinfo=UTC)
"""Of this now, no time is yet to come."""
_CLOCKS_DIFFER: Final = timedelta(seconds=30)


def utc_now() -> datetime:
    """The clock of the shells; decisions get the time as an argument."""
    return datetime.now(UTC)


def rfc3339(when: datetime) -> str:
    """`2026-11-20T12:00:00Z`: metav1.Time. `when` is in UTC."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(when: datetime) -> str:
    """`2026-11-20T12:00:00.000001Z`: metav1.MicroTime. `when` is in UTC."""
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> datetime:
    """Either form.

    Raises:
        ValueError: the text is neither.
    """
    return datetime.fromisoformat(text)


def is_of_start(told: datetime, begun: datetime, now: datetime) -> bool:
    """What tells this time can be of what began then, both by the clock of one machine; `now` is by ours.

    A time to come is of a clock that was ahead. Beside a begin that has come it is of an earlier start, and would be
    later than each begin until our clock has come there.
    """
    is_told_to_come, is_begin_to_come = (each - now > _CLOCKS_DIFFER for each in (told, begun))
    return told >= begun and is_told_to_come <= is_begin_to_come


def backoff_s(failures: int, *, first_s: float, last_s: float) -> float:
    """The delay after that many earlier failures: `first_s`, doubled with each, at most `last_s`."""
    return min(first_s * 2.0 ** min(failures, 30), last_s)

"""Times as Kubernetes writes them (RFC 3339 in UTC), and delays that double."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

LATEST: Final = datetime.max.replace(tzinfo=UTC)
"""The latest possible time. If it is given as `now`, every other time lies in the past."""
_CLOCKS_DIFFER: Final = timedelta(seconds=30)


def utc_now() -> datetime:
    """Return the time in UTC by the machine's clock. No other function of `core` calls it: each gets the time as an
    argument.
    """
    return datetime.now(UTC)


def rfc3339(when: datetime) -> str:
    """Return the time as a metav1.Time, `2026-11-20T12:00:00Z`. `when` is in UTC."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(when: datetime) -> str:
    """Return the time as a metav1.MicroTime, `2026-11-20T12:00:00.000001Z`. `when` is in UTC."""
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> datetime:
    """Return the time in an RFC 3339 text. If the text names no time zone, the returned time has none.

    Raises:
        ValueError: the text is not a time in RFC 3339 or ISO 8601.
    """
    return datetime.fromisoformat(text)


def is_of_start(told: datetime, begun: datetime, now: datetime) -> bool:
    """True if a record written at `told` can come from the process that started at `begun`, and not from an earlier
    one.

    Both times are from the clock of one machine, which may have been wrong; `now` is from our clock. A record from the
    future comes from a clock that was ahead. If `begun` has passed by our clock, such a record is of an earlier start.
    """
    is_told_to_come, is_begin_to_come = (each - now > _CLOCKS_DIFFER for each in (told, begun))
    return told >= begun and is_told_to_come <= is_begin_to_come


def backoff_s(failures: int, *, first_s: float, last_s: float) -> float:
    """Return the delay in seconds: `first_s`, doubled for each earlier failure, at most `last_s`."""
    return min(first_s * 2.0 ** min(failures, 30), last_s)

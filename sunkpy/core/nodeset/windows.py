"""When a rolling update may replace pods: in weekly windows, in UTC. Without windows it always may.

Outside of the windows the update stands still as if it were paused: pods that only wait for their jobs are no longer
marked for removal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final

import msgspec

from sunkpy.core.model.objects import Wire

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_A_WEEK: Final = 7


class Window(Wire, frozen=True, kw_only=True):
    """A weekly time span. It begins at `start`, such as `22:30`, on each of `days` (none: every day), and lasts
    `hours`, also past midnight.
    """

    days: tuple[str, ...] = ()
    start: Annotated[str, msgspec.Meta(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")] = "00:00"
    hours: Annotated[int, msgspec.Meta(ge=1, le=24)] = 24

    def spans(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield beginning and end of each occurrence of the window, from yesterday on, for more than a week."""
        hour, minute = self.start.split(":")
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        for day in range(-1, _A_WEEK + 1):
            begins = midnight + timedelta(days=day, hours=int(hour), minutes=int(minute))
            if not self.days or _DAYS[begins.weekday()] in self.days:
                yield begins, begins + timedelta(hours=self.hours)


def is_open(windows: Sequence[Window], now: datetime) -> bool:
    """True if a rolling update may replace pods now: a window is open, or there are no windows."""
    return not windows or any(begins <= now < ends for window in windows for begins, ends in window.spans(now))


def next_change(windows: Sequence[Window], now: datetime) -> datetime | None:
    """Return when the next window begins or ends; None without windows."""
    times = (at for window in windows for span in window.spans(now) for at in span)
    return min((at for at in times if at > now), default=None)


def next_opening(windows: Sequence[Window], now: datetime) -> datetime | None:
    """Return when the next window begins; None without windows."""
    times = (begins for window in windows for begins, _ in window.spans(now))
    return min((at for at in times if at > now), default=None)

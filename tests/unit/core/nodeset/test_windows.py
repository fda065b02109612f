"""Windows of the week in which a roll may begin."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.nodeset.windows import Window, is_open, next_change, next_opening

FRIDAY = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
NIGHT = Window(days=("Fri",), start="22:30", hours=6)
WINDOWS = st.builds(
    Window,
    days=st.lists(st.sampled_from(("Mon", "Wed", "Sun")), max_size=2, unique=True).map(tuple),
    start=st.sampled_from(("00:00", "07:15", "23:59")),
    hours=st.integers(1, 24),
)


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("windows", "now", "opened", "changes", "opens"),
    [
        ((), FRIDAY, True, None, None),
        ((NIGHT,), FRIDAY, False, at(20, 22, 30), at(20, 22, 30)),
        ((NIGHT,), at(20, 22, 29), False, at(20, 22, 30), at(20, 22, 30)),
        ((NIGHT,), at(20, 22, 30), True, at(21, 4, 30), at(27, 22, 30)),
        ((NIGHT,), at(21, 4, 29), True, at(21, 4, 30), at(27, 22, 30)),
        ((NIGHT,), at(21, 4, 30), False, at(27, 22, 30), at(27, 22, 30)),
        ((Window(start="06:00", hours=2),), at(20, 7), True, at(20, 8), at(21, 6)),
        ((NIGHT, Window(days=("Sat",), start="04:00", hours=1)), at(21, 4, 45), True, at(21, 5), at(27, 22, 30)),
        ((Window(),), FRIDAY, True, at(21, 0), at(21, 0)),
    ],
)
def test_a_window_begins_and_ends(windows, now, opened, changes, opens):
    assert (is_open(windows, now), next_change(windows, now), next_opening(windows, now)) == (opened, changes, opens)


@given(st.lists(WINDOWS, min_size=1, max_size=3), st.integers(0, 7 * 24 * 60))
def test_until_the_next_change_nothing_changes(windows, minutes):
    now = FRIDAY + timedelta(minutes=minutes)
    change = next_change(windows, now)
    assert change is not None
    assert is_open(windows, now) is is_open(windows, change - timedelta(minutes=1))
    assert change - now <= timedelta(days=7)


@pytest.mark.parametrize("start", ["24:00", "7:00", "12:60", "noon"])
def test_what_is_no_time_is_refused(start):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"start": start, "hours": 1}, Window)

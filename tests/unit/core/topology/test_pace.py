"""A topology file is written seldom, and not while it still changes."""

import itertools

import pytest

from sunkpy.core.topology.pace import Pace, Pending, is_due, note

PACE = Pace()


def pending(same_since_s: float, other_since_s: float) -> Pending:
    return Pending(text="b", same_since_s=same_since_s, other_since_s=other_since_s)


@pytest.mark.parametrize(
    ("waiting", "written_ago_s", "is_written"),
    [
        (None, None, False),
        (pending(990, 990), None, True),
        (pending(991, 991), None, False),
        (pending(999, 941), None, False),
        (pending(999, 940), None, True),
        (pending(0, 0), 599, False),
        (pending(0, 0), 600, True),
    ],
)
def test_a_file_is_written_once_it_has_settled_and_at_most_one_in_ten_minutes(waiting, written_ago_s, is_written):
    assert is_due(waiting, PACE, written_ago_s=written_ago_s, now_s=1000.0) is is_written


def test_a_thousand_changes_are_two_writes_and_what_is_as_it_was_is_none():
    waiting, written, at_s, writes = None, "0", None, []
    for second in range(2000):
        wanted = str(min(second, 999))  # a label changes each second
        waiting = note(waiting, wanted=wanted, written=written, now_s=float(second))
        if is_due(waiting, PACE, written_ago_s=None if at_s is None else second - at_s, now_s=float(second)):
            written, at_s, waiting = wanted, float(second), None
            writes.append((second, written))
    assert writes == [(61, "61"), (661, "661"), (1261, "999")]
    assert all(later - before >= PACE.each_s for (before, _), (later, _) in itertools.pairwise(writes))
    assert note(pending(0, 0), wanted="a", written="a", now_s=5.0) is None

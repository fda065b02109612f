"""What is published while answers differ and nodes come."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.growth.lacks import Lack
from sunkpy.core.growth.wish import Wish, explain, make_status, recall
from sunkpy.core.model.growth import GrowthRequest, GrowthStatus

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = datetime(2026, 1, 1, 13, tzinfo=UTC)


def lack(nodes: int = 0, **fields) -> Lack:
    return Lack(requests=(GrowthRequest(job="7", nodes=nodes),) if nodes else (), **fields)


def wanted_after(answers: list[tuple[int, int]]) -> list[int]:
    """What is wanted after each answer: how many are there, how many are lacking."""
    wish, found = Wish(), []
    for there, lacking in answers:
        wish = wish.settle(lack(lacking), there)
        found.append(wish.wanted(there))
    return found


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        pytest.param([(10, 90), (10, 90), (10, 90)], [0, 90, 90], id="asked for once, when two answers say so"),
        pytest.param([(10, 90), (10, 90), (60, 40), (100, 0), (100, 0)], [0, 90, 40, 0, 0], id="less as they come"),
        pytest.param([(10, 90), (10, 90), (10, 0), (10, 0)], [0, 90, 90, 0], id="the job is cancelled"),
        pytest.param([(0, 5), (0, 0), (0, 5), (0, 0)], [0, 0, 0, 0], id="a wish that comes and goes buys nothing"),
        pytest.param([(0, 5), (0, 5), (0, 0), (0, 5), (0, 0)], [0, 5, 5, 5, 5], id="nor is one withdrawn"),
        pytest.param([(0, 5), (0, 9), (0, 9)], [0, 5, 9], id="more"),
        pytest.param([(0, 9), (0, 9), (0, 5), (0, 5)], [0, 9, 9, 5], id="less"),
        pytest.param([(10, 0), (9, 0), (10, 0)], [0, 0, 0], id="a node that leaves while nothing waits"),
    ],
)
def test_it_is_steady(answers, wanted):
    assert wanted_after(answers) == wanted


@given(st.lists(st.integers(0, 9), min_size=2))
def test_it_is_never_beyond_what_two_answers_say(lacking):
    wanted = wanted_after([(3, each) for each in lacking])
    for before, now, is_wanted in zip(lacking, lacking[1:], wanted[1:], strict=False):
        assert min(before, now) <= is_wanted <= max(before, now)


def test_what_comes_between_two_answers_is_less_to_wish_for():
    wish = Wish().settle(lack(90), 10).settle(lack(90), 10)
    assert [wish.wanted(there) for there in (10, 55, 100, 120)] == [90, 45, 0, 0]


def test_nodes_that_are_away_for_a_moment_are_not_wanted_anew():
    wish = Wish().settle(lack(2), 100).settle(lack(2), 100)
    assert [wish.wanted(there) for there in (100, 75, 101, 102)] == [2, 2, 1, 0]
    assert wish.settle(lack(2), 75).wanted(75) == 2


def test_nodes_that_come_are_for_the_first_job():
    first, second = GrowthRequest(job="1", nodes=3), GrowthRequest(job="2", nodes=4)
    both = Lack(requests=(first, second))
    wish = Wish().settle(both, 5).settle(both, 5)
    assert wish.requests_left(5) == (first, second)
    assert wish.requests_left(7) == (GrowthRequest(job="1", nodes=1), second)
    assert wish.requests_left(8) == (second,)
    assert wish.requests_left(12) == ()


@given(st.lists(st.integers(1, 5), max_size=6), st.integers(0, 9), st.integers(0, 30))
def test_requests_are_for_no_more_nodes_than_are_wanted(nodes, there, come):
    both = Lack(requests=tuple(GrowthRequest(job=str(n), nodes=each) for n, each in enumerate(nodes)))
    wish = Wish().settle(both, there).settle(both, there)
    left = wish.requests_left(there + come)
    assert sum(each.nodes for each in left) == wish.wanted(there + come)
    assert all(each.nodes > 0 for each in left)


def test_a_new_leader_withdraws_nothing_at_once():
    requests = (GrowthRequest(job="7", nodes=5),)
    before = GrowthStatus(wanted_nodes=5, counted_nodes=3, requests=requests, since="2026-01-01T11:00:00Z")
    wish = recall(before).settle(lack(), 3)
    assert (wish.wanted(3), wish.requests_left(3)) == (5, before.requests)
    assert wish.settle(lack(), 3).wanted(3) == 0
    assert recall(None) == recall(GrowthStatus(reason="x")) == Wish()
    assert recall(before).wanted(5) == 3, "two have come since"


def test_since_is_from_when_on_nodes_have_been_wanted():
    wish = Wish().settle(lack(2), 0).settle(lack(2), 0)
    first = make_status(wish, lack(2), there=0, potential=9, before=None, now=NOW)
    whole = GrowthStatus(wanted_nodes=2, requests=(GrowthRequest(job="7", nodes=2),), since="2026-01-01T12:00:00Z")
    assert first == whole
    later = make_status(wish, lack(2), there=1, potential=9, before=first, now=LATER)
    assert later is not None
    assert (later.wanted_nodes, later.counted_nodes, later.since) == (1, 1, "2026-01-01T12:00:00Z")
    assert make_status(wish, lack(), there=2, potential=9, before=later, now=LATER) is None


def test_what_cannot_be_helped_is_told_beside_it():
    told = lack(never={"7": "needs 200 nodes, and there can be 9"}, more=2, behind=1)
    text = (
        "job 7: needs 200 nodes, and there can be 9; 2 jobs more that no new node would help; "
        "1 job waits for nodes beyond its potential of 9"
    )
    assert explain(told, 9) == text
    assert make_status(Wish(), told, there=0, potential=9, before=None, now=NOW) == GrowthStatus(reason=text)
    assert explain(lack(behind=4), 9) == "4 jobs wait for nodes beyond its potential of 9"
    assert explain(lack(unseen=1), 9) == (
        "1 job not considered: the limits are 50 heterogeneous jobs and 500 lists of excluded nodes"
    )

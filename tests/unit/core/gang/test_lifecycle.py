"""The table of moves against what really can happen: every walk through `course` is in the table, and nothing else."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.gang import actions
from sunkpy.core.gang.lifecycle import MOVES, Event, IllegalMove, State, advance, reachable
from tests.unit.core.gang.course import begin, steps
from tests.unit.core.gang.pods import make_pod
from tests.unit.core.gang.test_families import trio


def _all_moves_of_one_pod() -> set[tuple[State, State, Event | None]]:
    """Every step that a gang of one can take, by looking at every state of its world once."""
    first = begin([make_pod()])
    found, known, todo = set(), {msgspec.json.encode(first)}, [first]
    while todo:
        view = todo.pop()
        for event, after in steps(view):
            if after.state is not view.state:
                found.add((view.state, after.state, event))
            key = msgspec.json.encode(after, order="deterministic")
            if key not in known:
                known.add(key)
                todo.append(after)
    return found


def test_the_table_has_the_moves_that_can_happen_and_no_others():
    table = {(old, new, event) for old, row in MOVES.items() for new, move in row.items() for event in move.on}
    assert _all_moves_of_one_pod() == table


@given(st.data())
def test_a_gang_of_several_takes_only_moves_of_the_table(data):
    view = begin(trio())
    for _ in range(data.draw(st.integers(1, 40))):
        choices = list(steps(view))
        if not choices:
            break
        event, after = data.draw(st.sampled_from(choices))
        if after.state is not view.state:
            move = MOVES[view.state].get(after.state)
            assert move is not None, f"{view.state} -> {after.state} on {event}"
            assert event in move.on, f"{view.state} -> {after.state} on {event}"
        view = after


@pytest.mark.parametrize("event", [Event.SUBMIT, Event.BIND])
def test_our_own_events_are_named_after_their_actions(event):
    assert hasattr(actions, event.value)


def test_every_state_has_a_row():
    assert set(MOVES) == set(State)


@pytest.mark.parametrize("state", State)
def test_every_state_leads_to_done_and_may_stay(state):
    assert State.DONE in reachable(state)
    assert advance(state, state) is state


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (State.WAITING, State.RUNNING),  # a new leader sees a late picture
        (State.STARTED, State.WAITING),
        (State.BOUND, State.HANDING_OVER),
        (State.RUNNING, State.DONE),
    ],
)
def test_observations_may_skip_states(old, new):
    assert advance(old, new) is new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (State.BOUND, State.WAITING),
        (State.RUNNING, State.SUBMITTED),
        (State.ENDING, State.RUNNING),
        *((State.DONE, state) for state in State if state is not State.DONE),
    ],
)
def test_what_no_course_of_events_explains_is_refused(old, new):
    with pytest.raises(IllegalMove, match=f"a gang that was {old.value} cannot be {new.value}"):
        advance(old, new)

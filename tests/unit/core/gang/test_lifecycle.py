"""The table of moves against what really can happen: every walk through `course` is in the table, and nothing else."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.gang import actions
from sunkpy.core.gang.lifecycle import MOVES, Event, IllegalMove, State, advance, reachable
from sunkpy.core.gang.places import explain_missing
from sunkpy.core.gang.view import is_over
from tests.unit.core.gang.course import band_pod, begin, describe, settled, steps
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
    moves = [(old, new, move) for old, row in MOVES.items() for new, move in row.items() if not move.several]
    table = {(old, new, event) for old, new, move in moves for event in move.on}
    assert _all_moves_of_one_pod() == table


@given(st.data(), st.booleans())
def test_a_gang_of_several_takes_only_moves_of_the_table(data, in_waves):
    view = begin([band_pod("leader", 0, 1)] if in_waves else trio())
    for event, after in _walk(data, view):
        if after.state is not view.state:
            move = MOVES[view.state].get(after.state)
            assert move is not None, f"{view.state} -> {after.state} on {event}"
            assert event in move.on, f"{view.state} -> {after.state} on {event}"
        view = after


def _walk(data, view):
    for _ in range(data.draw(st.integers(1, 40))):
        choices = list(steps(view))
        if not choices:
            break
        event, view = data.draw(st.sampled_from(choices))
        yield event, view


@given(st.data(), st.booleans())
def test_members_are_bound_under_a_job_that_has_begun_on_all_its_nodes_and_at_first_together(data, in_waves):
    view = begin([band_pod("leader", 0, 1)] if in_waves else trio())
    for event, after in _walk(data, view):
        new = after.holding.keys() - view.holding.keys()
        if event is Event.BIND:
            (job,) = [job for job in view.jobs if job.id == after.bound_to]
            assert new
            assert job.is_live
            assert not job.is_let_go
            assert set(job.nodes) == set(job.start_nodes) or view.is_bound
            assert {after.placed[uid] for uid in new} <= set(job.nodes)
            assert view.is_bound or in_waves or after.is_half_bound or len(new) == 3 - sum(map(is_over, view.pods))
        else:
            assert not new
        view = after


@given(st.data(), st.booleans())
def test_whatever_happened_a_gang_comes_to_run_whole_or_not_at_all(data, in_waves):
    """From where the walk ends Slurm starts what it can, kubelets do what they are told, owners make what is gone."""
    view = begin([band_pod("leader", 0, 1)] if in_waves else trio())
    for _, after in _walk(data, view):
        view = after
    view = settled(view)
    living = [pod for pod in view.pods if not is_over(pod)]
    if not view.holding and not in_waves:
        assert not living or explain_missing(view.gang)  # nobody makes the pods of a trio anew
    elif living:
        assert view.holding.keys() == {pod.uid for pod in living}, describe(view)
        assert view.bound_job.is_script_running


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


def test_a_gang_of_several_may_wait_again_but_what_is_done_stays_done():
    assert advance(State.RUNNING, State.WAITING, several=True) is State.WAITING
    with pytest.raises(IllegalMove):
        advance(State.DONE, State.WAITING, several=True)

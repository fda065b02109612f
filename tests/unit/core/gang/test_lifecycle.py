import pytest

from sunkpy.core.gang.lifecycle import MOVES, IllegalMove, State, advance, reachable


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
    with pytest.raises(IllegalMove, match=new.value):
        advance(old, new)

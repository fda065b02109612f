import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.model.conditions import as_json, says_the_same, stamped
from sunkpy.core.model.objects import Condition

BEFORE, NOW = "2026-11-20T12:00:00Z", "2026-11-21T00:00:00Z"
OLD = Condition(
    type="Ready", status="True", reason="Up", message="all", last_transition_time=BEFORE, observed_generation=1
)

conditions = st.builds(
    Condition,
    type=st.just("Ready"),
    status=st.sampled_from(["True", "False", "Unknown"]),
    reason=st.sampled_from(["", "Up"]),
    message=st.sampled_from(["", "all"]),
    last_transition_time=st.sampled_from([None, BEFORE]),
    observed_generation=st.sampled_from([None, 1, 2]),
)


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({}, True),
        ({"last_transition_time": None}, True),
        ({"observed_generation": 2}, True),
        ({"status": "False"}, False),
        ({"reason": "Down"}, False),
        ({"message": "most"}, False),
    ],
)
def test_times_and_generations_say_nothing(change: dict[str, object], is_same: bool) -> None:
    assert says_the_same(OLD, msgspec.structs.replace(OLD, **change)) == is_same


def test_what_was_never_said_is_new() -> None:
    assert not says_the_same(None, Condition(type="Ready"))


@pytest.mark.parametrize(
    ("old", "since"),
    [
        pytest.param(None, NOW, id="never set"),
        pytest.param(msgspec.structs.replace(OLD, status="False"), NOW, id="another status"),
        pytest.param(msgspec.structs.replace(OLD, reason="Other", message="other"), BEFORE, id="another reason"),
        pytest.param(msgspec.structs.replace(OLD, last_transition_time=None), NOW, id="set without a time"),
    ],
)
def test_a_transition_is_a_change_of_status_alone(old: Condition | None, since: str) -> None:
    new = Condition(type="Ready", status="True", reason="Up")
    assert stamped(new, old, NOW) == msgspec.structs.replace(new, last_transition_time=since)


@given(conditions, st.none() | conditions)
def test_stamping_changes_the_time_alone_and_a_second_stamp_nothing(new: Condition, old: Condition | None) -> None:
    once = stamped(new, old, NOW)
    assert msgspec.structs.replace(once, last_transition_time=None) == msgspec.structs.replace(
        new, last_transition_time=None
    )
    assert stamped(new, once, "2027-01-01T00:00:00Z") == once


def test_empty_fields_are_written_for_they_replace_what_stood_there() -> None:
    body = as_json(Condition(type="Ready", status="True", last_transition_time=NOW))
    assert body == {"type": "Ready", "status": "True", "reason": "", "message": "", "lastTransitionTime": NOW}


@given(conditions)
def test_what_is_written_is_read_as_the_same_condition(condition: Condition) -> None:
    assert msgspec.convert(as_json(condition), Condition) == condition

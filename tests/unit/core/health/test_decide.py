"""From the signal to the drain, the cure and the return; what cannot be read moves nothing."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core import names
from sunkpy.core.health import HealthRules, Record, Rule, State, drain_text, lifted_reason, read_record
from sunkpy.core.health.decide import is_closed_by_us, next_remedy, remedy_name
from sunkpy.core.health.record import CLOSED
from sunkpy.core.health.verification import FAILED, REQUESTED, verify_s
from sunkpy.core.model.times import rfc3339
from tests.unit.core.health.build import (
    DEADLOCK,
    KILLED,
    MENDER,
    NODES,
    NOW,
    PODS,
    REBOOT,
    RULES,
    node,
    pod,
    record,
    step,
    stepped,
    told,
)

NO_ANSWER = "it was not certain that no job runs on the node, and no pod of a job"
MENDED = HealthRules(
    signals={"deadlock": msgspec.structs.replace(DEADLOCK, remedy="mender")}, remedies={"mender": MENDER}
)


def state_of(at):
    found = read_record(at)
    return found.state if found else None


def test_a_well_node_costs_nothing():
    assert step(node(), pod()).changes == {}
    assert step(node(), None).changes == {}


def test_a_signal_drains_at_once_what_has_no_patience():
    sick = stepped(node(label="bad"), pod())
    assert state_of(sick) is State.CLOSING
    assert drain_text(sick) == "label: label example.com/health=bad"


def test_patience_counts_from_the_time_that_the_condition_tells():
    asked = step(node(deadlock="True"), pod())
    assert asked.after is not None
    assert (asked.after.state, asked.again_s, asked.after.due) == (State.SUSPECT, 50.0, "2026-11-28T12:00:50Z")
    suspect = stepped(node(deadlock="True"), pod())
    assert drain_text(suspect) is None
    assert state_of(stepped(suspect, pod(), after_s=49)) is State.SUSPECT
    assert state_of(stepped(suspect, pod(), after_s=50)) is State.CLOSING


def test_a_source_whose_clock_is_ahead_delays_nothing():
    asked = step(node(deadlock="True"), pod(), after_s=-3600)
    assert asked.after is not None
    assert (asked.again_s, asked.after.due) == (60.0, "2026-11-28T11:01:00Z")


def test_a_signal_that_ends_within_its_patience_leaves_no_trace():
    suspect = record(State.SUSPECT, "deadlock")
    assert step(node(deadlock="False", record=suspect), pod()).changes == {names.ANNOTATION_HEALTH: None}
    assert step(node(record=suspect), pod(), after_s=100).changes == {}, "a condition that nobody reports is not known"


def test_the_cap_leaves_a_sick_node_open_and_says_so():
    held = step(node(label="bad"), pod(), has_room=False)
    assert held.is_held
    assert held.after is not None
    assert (held.after.state, held.after.why) == (
        State.SUSPECT, "left open: too many Nodes are closed because of their health",
    )  # fmt: skip
    again = step(stepped(node(label="bad"), pod(), has_room=False), pod(), has_room=False)
    assert again.changes == {}, "it is told once"
    assert state_of(stepped(node(label="bad", record=held.after), pod())) is State.CLOSING


@pytest.mark.parametrize(
    ("state", "on", "then"),
    [
        (State.CLOSING, pod(), State.CLOSING),
        (State.CLOSING, pod(drain=True, busy=True), State.DRAINING),
        (State.DRAINING, pod(drain=True, busy=True), State.DRAINING),
        (State.DRAINING, pod(drain=True), State.DRAINED),
        (State.DRAINING, pod(), State.DRAINING),
        (State.DRAINING, None, State.DRAINING),
        (State.DRAINED, pod(drain=True), State.DRAINED),
    ],
)
def test_a_drain_is_followed_as_slurm_carries_it_out(state, on, then):
    assert state_of(stepped(node(label="bad", record=record(state, "label")), on)) is then


def test_a_node_is_drained_only_by_an_answer_of_now_for_the_syncer_may_be_away():
    """What the pod shows is from before: somebody has resumed the node since, and a job has begun there."""
    draining = node(label="bad", record=record(State.DRAINING, "label", ago_s=86_400))
    waits = step(draining, pod(drain=True), is_empty=False)
    assert (waits.after.state, waits.after.due, waits.again_s) == (State.DRAINING, "2026-11-28T13:00:00Z", 3600.0)


@pytest.mark.parametrize(
    ("on", "why"),
    [
        pytest.param(pod(drain=True), f"for 60 min {NO_ANSWER}", id="old"),
        pytest.param(None, f"for 60 min {NO_ANSWER}, and there is no slurmd pod", id="no slurmd pod"),
    ],
)
def test_a_drain_of_whose_end_nobody_knows_needs_a_person_in_time(on, why):
    """The time with jobs does not count."""
    draining = node(label="broken", record=record(State.DRAINING, "mend", ago_s=86_400))
    said = {"is_empty": on is None}
    waits = stepped(draining, on, **said)
    assert state_of(stepped(waits, on, **said, after_s=3599)) is State.DRAINING
    late = step(waits, on, **said, after_s=3600).after
    assert (late.state, late.why) == (State.PERSON, why)
    busy = stepped(waits, pod(drain=True, busy=True), after_s=3599)
    assert state_of(stepped(busy, on, **said, after_s=3600)) is State.DRAINING
    assert state_of(stepped(waits, pod(drain=True), after_s=3600)) is State.DRAINED


def test_a_pod_that_goes_without_a_job_before_slurm_has_said_so_leaves_a_drained_node():
    draining = node(label="broken", record=record(State.DRAINING, "mend", ago_s=86_400))
    gone = stepped(stepped(draining, pod(drain=True), is_empty=False), None)
    assert state_of(gone) is State.DRAINED
    assert step(gone, None, after_s=10).begins_remedy
    busy_again = stepped(stepped(draining, pod(drain=True), is_empty=False), pod(drain=True, busy=True))
    assert state_of(stepped(busy_again, None)) is State.DRAINING


@pytest.mark.parametrize(
    ("then", "is_empty"),
    [
        pytest.param([pod()], True, id="it was open again"),
        pytest.param(
            [told(pod(drain=True), names.CONDITION_RUNNING, "Unknown"), pod()],
            True,
            id="it was open again, which nobody saw at first",
        ),
        pytest.param([], False, id="a pod of a job is left"),
    ],
)
def test_a_pod_that_goes_leaves_no_drained_node_if_something_may_run_there(then, is_empty):
    at = stepped(node(label="broken", record=record(State.DRAINING, "mend")), pod(drain=True), is_empty=False)
    for on in then:
        at = stepped(at, on, is_empty=False)
    assert state_of(stepped(at, None, is_empty=is_empty)) is State.DRAINING


def test_a_drain_of_slurms_is_lifted_after_the_boot_though_nobody_said_that_it_is_over():
    """No job outlives the boot."""
    draining = node(boot="two", record=record(State.DRAINING, "kill", reason=KILLED, due=rfc3339(NOW)))
    settling = stepped(draining, pod(slurm=KILLED), is_empty=False)
    assert read_record(settling).due == "", "the node needs no person any more"
    assert state_of(stepped(settling, pod(slurm=KILLED), is_empty=False, after_s=60)) is State.RETURNING


@pytest.mark.parametrize("state", sorted(CLOSED - {State.VERIFY}))
def test_a_cured_node_comes_back_once_the_signal_has_been_gone_for_a_minute(state):
    settling = stepped(node(record=record(state, "label")), pod())
    assert (state_of(settling), step(settling, pod()).again_s) == (state, 60.0)
    assert state_of(stepped(settling, pod(), after_s=59)) is state
    back = step(settling, pod(), after_s=60).after
    assert back is not None
    assert (back.state, back.why, back.returns) == (
        State.WELL,
        "cured: the signal has ended",
        ("2026-11-28T12:01:00Z",),
    )


def test_a_signal_that_flickers_starts_the_minute_anew():
    settling = stepped(node(record=record(State.DRAINED, "label")), pod())
    flickers = stepped(node(label="bad", record=read_record(settling)), pod(), after_s=30)
    assert state_of(stepped(node(record=read_record(flickers)), pod(), after_s=60)) is State.DRAINED


@pytest.mark.parametrize(
    ("ago_s", "on", "why"),
    [
        (3599, pod(drain=True), None),
        (3600, pod(drain=True), "not cured after 60 min"),
        (3600, None, "no slurmd pod for 60 min"),
    ],
)
def test_what_is_not_cured_in_time_needs_a_person(ago_s, on, why):
    after = step(node(label="bad", record=record(State.DRAINED, "label", ago_s=ago_s)), on).after
    assert after is not None
    assert (after.why or None, after.state is State.PERSON) == (why, why is not None)


def test_a_slurmd_that_never_came_up_needs_a_person_in_time():
    """Slurm has no node of its name, so it shows no drain."""
    rules = HealthRules(signals={"starts": Rule(failed_starts=3)})
    closing = stepped(node(), pod(restarts=9, words="no cgroups"), rules=rules)
    assert state_of(closing) is State.CLOSING
    assert state_of(stepped(closing, pod(restarts=9), rules=rules, after_s=3599)) is State.CLOSING
    asks = read_record(stepped(closing, pod(restarts=9), rules=rules, after_s=3600))
    assert (asks.state, asks.why) == (State.PERSON, "Slurm shows no drain after 60 min")


def test_a_drain_waits_for_its_jobs_as_long_as_they_take():
    busy = node(label="bad", record=record(State.DRAINING, "label", ago_s=1_000_000))
    assert step(busy, pod(drain=True, busy=True)).changes == {}


def test_what_only_a_person_cures_says_so_once_it_is_empty_and_stays_closed():
    loud = stepped(node(label="loud", record=record(State.DRAINED, "fan")), pod(drain=True))
    assert read_record(loud).why == "no rule says what cures the node"
    quiet = node(record=read_record(loud))
    assert state_of(stepped(quiet, pod(drain=True), after_s=10_000)) is State.PERSON
    wiped = node()
    assert step(wiped, pod(drain=True)).changes == {}, "the person has wiped the record"
    assert drain_text(wiped) is None


def test_a_node_that_comes_back_again_and_again_needs_a_person():
    returns = tuple(rfc3339(NOW - timedelta(hours=hours)) for hours in (30, 9, 5, 1))
    cured = record(State.DRAINED, "label", returns=returns, good_since=rfc3339(NOW - timedelta(minutes=2)))
    stays = step(node(record=cured), pod(drain=True)).after
    assert stays is not None
    assert (stays.state, stays.why) == (State.PERSON, "cured, but the node came back 3 times in a day")
    assert state_of(stepped(node(record=stays), pod(drain=True), after_s=100_000)) is State.PERSON


def test_slurms_own_drain_is_followed_and_no_drain_of_ours_is_added():
    drained = stepped(node(), pod(slurm=KILLED, busy=True))
    assert (state_of(drained), drain_text(drained), read_record(drained).reason) == (State.DRAINING, None, KILLED)
    assert step(node(), pod(slurm=KILLED), has_room=False).after.state is State.DRAINING, "Slurm asks for no room"


def test_a_person_who_resumes_the_node_in_slurm_ends_it():
    asks = record(State.PERSON, "prolog", reason="Prolog error")
    assert state_of(stepped(node(record=asks), pod())) is State.WELL
    assert step(node(record=asks), pod(slurm=None)).changes == {}, "Slurm cannot be read"


def test_a_drain_of_slurm_is_lifted_after_a_reboot_where_a_rule_says_so():
    drained = node(record=record(State.DRAINED, "kill", reason=KILLED))
    assert state_of(stepped(drained, pod(slurm=KILLED), after_s=1000)) is State.DRAINED, "the same boot"
    rebooted = node(boot="two", record=read_record(drained))
    assert state_of(stepped(rebooted, pod(slurm=KILLED, restarts=1), after_s=1000)) is State.DRAINED, "no slurmd yet"
    settling = stepped(rebooted, pod(slurm=KILLED))
    lifting = stepped(settling, pod(slurm=KILLED), after_s=60)
    assert (state_of(lifting), lifted_reason(lifting)) == (State.RETURNING, KILLED)
    assert read_record(lifting).why == f"the machine has started again; lifting {KILLED!r}"
    assert state_of(stepped(lifting, pod(), after_s=62)) is State.WELL
    seen = stepped(lifting, pod(slurm=KILLED), after_s=60)
    fails = stepped(seen, pod(slurm=KILLED), after_s=360)
    assert (state_of(fails), read_record(fails).why) == (State.PERSON, "cured, but Slurm still has the drain")
    assert state_of(stepped(fails, pod(slurm=KILLED), after_s=10_000)) is State.PERSON


@pytest.mark.parametrize("away", [pod(slurm=None), None], ids=["Slurm cannot be read", "no slurmd pod"])
def test_the_time_to_lift_a_drain_does_not_run_while_slurm_is_away(away):
    lifting = node(boot="two", record=record(State.RETURNING, "kill", reason=KILLED))
    gone = stepped(stepped(lifting, pod(slurm=KILLED)), away, after_s=299)
    assert state_of(stepped(gone, away, after_s=3599)) is State.RETURNING
    back = stepped(gone, pod(slurm=KILLED), after_s=3000)
    assert state_of(stepped(back, pod(slurm=KILLED), after_s=3299)) is State.RETURNING
    assert state_of(stepped(back, pod(), after_s=3299)) is State.WELL
    late = read_record(stepped(gone, away, after_s=3600))
    assert (late.state, late.why) == (State.PERSON, "cured, but Slurm has not said whether it still has the drain")


def test_the_reason_that_is_lifted_is_the_one_that_slurm_has_now():
    """Slurm 24.11 first writes its own words, and report-unkillable then more."""
    first = stepped(node(), pod(slurm="Kill task failed", busy=True))
    later = stepped(first, pod(slurm=KILLED))
    assert read_record(later).reason == KILLED
    unread = stepped(later, pod(slurm=None))
    assert read_record(unread).reason == KILLED
    rebooted = node(boot="two", record=read_record(unread))
    lifting = stepped(stepped(rebooted, pod(slurm=KILLED)), pod(slurm=KILLED), after_s=60)
    assert lifted_reason(lifting) == KILLED
    renamed = stepped(lifting, pod(slurm=KILLED + " again"), after_s=61)
    assert lifted_reason(renamed) == KILLED + " again"


def test_a_late_reboot_brings_back_a_node_for_which_a_person_was_asked():
    asks = record(State.PERSON, "kill", reason=KILLED, good_since=rfc3339(NOW - timedelta(minutes=2)))
    assert state_of(stepped(node(boot="two", record=asks), pod(slurm=KILLED))) is State.RETURNING


def test_a_reboot_alone_cures_nothing_whose_signal_stays():
    drained = record(State.DRAINED, "reboot", good_since=rfc3339(NOW - timedelta(minutes=2)))
    still = node(boot="two", taints=(REBOOT,), record=drained)
    assert state_of(stepped(still, pod(drain=True))) is State.DRAINED
    assert state_of(stepped(node(boot="two", record=drained), pod(drain=True))) is State.WELL
    assert state_of(stepped(node(boot="one", record=drained), pod(drain=True))) is State.DRAINED


def test_a_remedy_begins_once_nothing_runs_there_and_a_cure_brings_the_node_back():
    drained = node(label="broken", record=record(State.DRAINED, "mend"))
    assert step(drained, pod(drain=True), may_remedy=False).changes == {}, "too many are remedied"
    mending = stepped(drained, pod(drain=True))
    assert (state_of(mending), drain_text(mending)) == (State.REMEDY, "mend: evidence")
    assert step(mending, pod(drain=True)).after.due == "2026-11-28T12:30:00Z"
    settling = stepped(node(record=read_record(mending)), pod(drain=True), after_s=100)
    assert state_of(stepped(settling, pod(drain=True), after_s=160)) is State.WELL
    late = stepped(mending, pod(drain=True), after_s=1800)
    assert (state_of(late), read_record(late).why) == (State.PERSON, "remedy mender has not helped within 30 min")
    assert state_of(stepped(late, pod(drain=True), after_s=9000)) is State.PERSON, "it is tried once"


def test_a_remedy_waits_for_a_window_of_its_nodeset_unless_it_is_urgent():
    drained, opens = node(label="broken", record=record(State.DRAINED, "mend")), NOW + timedelta(hours=10)
    waits = step(drained, pod(drain=True), opens_at=opens)
    assert (waits.after.state, waits.again_s) == (State.DRAINED, 15)
    assert waits.after.why == "its remedy waits for the window of its NodeSet that begins at 2026-11-28T22:00:00Z"
    waiting = stepped(drained, pod(drain=True), opens_at=opens)
    assert step(waiting, pod(drain=True), opens_at=opens, after_s=9000).changes == {}, "no person is asked for"
    assert state_of(stepped(waiting, pod(drain=True))) is State.REMEDY
    urgent = msgspec.structs.replace(MENDER, outside_windows=True)
    rules = msgspec.structs.replace(RULES, remedies={"mender": urgent})
    assert state_of(stepped(drained, pod(drain=True), opens_at=opens, rules=rules)) is State.REMEDY


@pytest.mark.parametrize(
    ("at", "on", "begins"),
    [
        pytest.param(node(label="broken", record=record(State.CLOSING, "mend")), pod(drain=True), True, id="drained"),
        pytest.param(node(label="broken", record=record(State.CLOSING, "mend")), pod(), False, id="not drained"),
        pytest.param(
            node(label="broken", record=record(State.CLOSING, "mend")), pod(drain=True, busy=True), False, id="jobs"
        ),
        pytest.param(
            node(label="broken", record=record(State.DRAINING, "mend")), None, False, id="nobody knows of jobs"
        ),
        pytest.param(node(record=record(State.DRAINED, "mend")), pod(drain=True), False, id="the signal has ended"),
    ],
)
def test_no_remedy_begins_while_a_job_may_run_or_without_its_signal(at, on, begins):
    begun = []
    for after_s in (10, 20, 30, 40):
        asked = step(at, on, after_s=after_s)
        begun.append(asked.begins_remedy)
        at = stepped(at, on, after_s=after_s)
    assert any(begun) is begins


@pytest.mark.parametrize("turn", [{"may_remedy": False}, {"opens_at": NOW + timedelta(days=2)}], ids=["cap", "window"])
def test_who_waits_for_its_turn_needs_no_person_while_its_signal_is_not_seen_for_a_moment(turn):
    waits = node(deadlock="True", record=record(State.DRAINED, "deadlock"))
    unseen = with_record(node(deadlock="Unknown"), stepped(waits, pod(drain=True), rules=MENDED, **turn))
    moment = stepped(unseen, pod(drain=True), rules=MENDED, after_s=9000, **turn)
    assert (state_of(moment), read_record(moment).due) == (State.DRAINED, "")
    turned = stepped(moment, pod(drain=True), rules=MENDED, after_s=10_000)
    assert read_record(turned).why == "its remedy waits until signal deadlock is seen again"
    seen = with_record(waits, turned)
    assert step(seen, pod(drain=True), rules=MENDED, after_s=10_100).begins_remedy
    late = read_record(stepped(turned, pod(drain=True), rules=MENDED, after_s=13_600))
    assert (late.state, late.why) == (
        State.PERSON, "for 60 min signal deadlock was not seen, and the node is not cured",
    )  # fmt: skip


def test_no_remedy_begins_before_slurm_has_said_now_that_nothing_runs_there():
    """The syncer may be away, and the node open in Slurm: what its pod shows is from before."""
    drained = node(label="broken", record=record(State.DRAINED, "mend"))
    waits = step(drained, pod(drain=True), is_empty=False)
    assert (waits.begins_remedy, waits.after.state, waits.after.due) == (False, State.DRAINED, "2026-11-28T13:00:00Z")
    why = "its remedy waits until Slurm says that no job runs on the node, and pods of jobs have gone"
    assert waits.after.why == why
    silent = node(label="broken", record=waits.after)
    late = step(silent, pod(drain=True), is_empty=False, after_s=3600).after
    assert (late.state, late.why) == (State.PERSON, f"for 60 min {NO_ANSWER}")


@pytest.mark.parametrize("turn", [{"may_remedy": False}, {"opens_at": NOW + timedelta(days=2)}], ids=["cap", "window"])
def test_who_waited_for_its_turn_for_hours_does_not_need_a_person_when_slurm_is_away_for_a_moment(turn):
    drained = node(label="broken", record=record(State.DRAINED, "mend", due=rfc3339(NOW + timedelta(hours=1))))
    waits = step(drained, pod(drain=True), is_empty=False, after_s=7200, **turn).after
    assert (waits.state, waits.due) == (State.DRAINED, "")
    turned = step(node(label="broken", record=waits), pod(drain=True), is_empty=False, after_s=7230).after
    assert turned.state is State.DRAINED
    assert step(node(label="broken", record=turned), pod(drain=True), after_s=7260).begins_remedy


def test_it_is_asked_whether_anything_runs_there_when_a_remedy_is_next():
    assert next_remedy(node(label="broken", record=record(State.DRAINED, "mend")), RULES)
    assert not next_remedy(node(label="broken", record=record(State.DRAINING, "mend")), RULES)
    assert not next_remedy(node(label="broken", record=record(State.DRAINED, "label")), RULES)
    assert not next_remedy(node(), RULES)


def test_a_remedy_is_one_object_for_a_node_and_a_time():
    at = node(label="broken", record=record(State.REMEDY, "mend"))
    name = remedy_name(at, read_record(at), "Mender")
    assert name.startswith("mender-")
    assert name == remedy_name(at, read_record(at), "Mender")
    assert name != remedy_name(at, record(State.REMEDY, "mend", ago_s=60), "Mender")
    assert MENDER.filled(at).body(name) == {
        "apiVersion": "example.com/v1", "kind": "Mend", "metadata": {"name": name}, "spec": {"node": "n1"},
    }  # fmt: skip


def test_another_signal_keeps_a_cured_node_closed():
    cured = record(State.DRAINED, "deadlock", good_since=rfc3339(NOW - timedelta(minutes=2)))
    other = stepped(node(deadlock="False", label="bad", record=cured), pod(drain=True))
    assert drain_text(other) == "label: label example.com/health=bad"
    slurms = stepped(node(deadlock="False", record=cured), pod(slurm=KILLED))
    assert (read_record(slurms).signal, drain_text(slurms)) == ("kill", None)


@pytest.mark.parametrize("state", State)
def test_a_node_that_is_to_be_left_alone_or_whose_rule_is_gone_comes_back(state):
    if state is State.WELL:
        return
    sick = node(label="bad", record=record(state, "label"))
    left_alone = node(label="bad", record=read_record(sick), annotations={names.ANNOTATION_HEALTH_IGNORED: "1"})
    for at, rules in ((sick, HealthRules()), (left_alone, RULES)):
        after = step(at, pod(drain=True), rules=rules).after
        assert after is None if state is State.SUSPECT else after.why == "no rule names this signal any more"


def test_a_node_that_never_was_slurms_is_none_of_our_business():
    foreign = msgspec.structs.replace(node(label="bad").metadata, annotations={})
    assert step(msgspec.structs.replace(node(label="bad"), metadata=foreign), None).changes == {}


def test_history_is_forgotten_after_a_week():
    well = record(State.DRAINED, "label").returned(NOW, why="cured")
    assert step(node(record=well), pod(), after_s=6 * 86_400).changes == {}
    assert step(node(record=well), pod(), after_s=8 * 86_400).changes == {names.ANNOTATION_HEALTH: None}


# ----------------------------------------------------------------------------------------------------------- invariants

TURNS = st.fixed_dictionaries({
    "has_room": st.booleans(), "may_remedy": st.booleans(), "is_empty": st.booleans(),
    "opens_at": st.sampled_from((None, NOW + timedelta(days=9))),
})  # fmt: skip
DAYS = st.lists(st.tuples(NODES, PODS, TURNS, st.integers(0, 5000)), max_size=30)


def with_record(at, of):
    text = of.annotations.get(names.ANNOTATION_HEALTH)
    kept = {**at.annotations, **({names.ANNOTATION_HEALTH: text} if text is not None else {})}
    return msgspec.structs.replace(at, metadata=msgspec.structs.replace(at.metadata, annotations=kept))


@given(DAYS)
def test_whatever_happens(days):
    before, now_s = node(), 0
    for seen, on, turn, passed_s in days:
        now_s += passed_s
        at = with_record(seen, before)
        asked = step(at, on, after_s=now_s, **turn)
        after = stepped(at, on, after_s=now_s, **turn)
        found = read_record(after)
        if asked.begins_remedy:
            assert turn["is_empty"], "nothing runs there"
            assert turn["may_remedy"]
            assert turn["opens_at"] is None
        if not turn["has_room"] and not is_closed_by_us(at) and (found is None or found.signal != FAILED):
            assert not is_closed_by_us(after), "nothing is closed over the cap, but for what does not register anyway"
        if found is not None and found.state is State.WELL and found.why.startswith("cured") and verify_s(on):
            assert on.is_condition_true("Ready"), "what has a check has passed it"
        if asked.after is not None and asked.after.state is State.RETURNING:
            assert asked.after.reason == KILLED, "only the reason that a rule names is ever lifted"
        if drain_text(at) is not None and drain_text(after) is None and asked.after is not None:
            ours = ("deadlock", "label", "fan", "reboot", "mend", FAILED, REQUESTED)
            assert read_record(at).signal in ours, "only what sunkpy closed is opened"
        assert len(after.annotations.get(names.ANNOTATION_HEALTH, "")) < 4096
        again = [stepped(after, on, after_s=now_s, **turn)]
        for _ in range(5):
            again.append(stepped(again[-1], on, after_s=now_s, **turn))
        assert again[-1] == again[-2], "it comes to rest while nothing changes"
        before = after


@given(st.sampled_from(sorted(CLOSED)), st.sampled_from(sorted(RULES.signals)), st.integers(0, 3599))
def test_a_closed_node_of_which_nothing_is_known_stays_closed(state, signal, after_s):
    unknown = node(boot="", record=record(state, signal, reason=KILLED), taints=(REBOOT,))
    label = {"label": "bad", "fan": "loud", "mend": "broken"}.get(signal, "")
    unknown = with_record(node(boot="", label=label, taints=(REBOOT,)), unknown)
    after = read_record(stepped(unknown, None, after_s=after_s))
    assert after is not None
    assert after.is_closed


@pytest.mark.parametrize("state", State)
def test_a_record_that_somebody_wrote_by_hand_breaks_nothing(state):
    odd = node(label="bad", record=Record(state=state, at=rfc3339(NOW), signal="label"))
    assert read_record(stepped(odd, pod(), after_s=10_000)) is not None

"""A start of slurmd is a check that has passed: a cured node comes back only after one since its cure."""

from __future__ import annotations

import pytest

from sunkpy.core import names
from sunkpy.core.health import State, drain_text, lifted_reason, read_record
from sunkpy.core.health.decide import waits_for_verification, waits_until_empty
from sunkpy.core.health.record import CLOSED
from sunkpy.core.health.verification import FAILED, REQUESTED, failure_of, run_of
from sunkpy.core.health.words import what_comes_next
from tests.unit.core.health.build import CHECK_FAILED, KILLED, NEWER, node, pod, record, step, stepped, told

FIRST = pod(drain=True, check_s=600)
CHECKS = pod(drain=True, check_s=600, ready=False, created=NEWER)
PASSED = pod(drain=True, check_s=600, created=NEWER)
FAILS = pod(check_s=600, restarts=1, words=CHECK_FAILED, created=NEWER)


def drained(signal="label", **changes):
    return record(State.DRAINED, signal, run=run_of(FIRST), **changes)


def waiting(on=FIRST):
    """A node whose signal has been gone for a minute."""
    settling = stepped(node(record=drained()), on)
    return stepped(settling, on, after_s=60)


def test_a_cured_node_waits_for_a_slurmd_pod_that_checks_it():
    cured = waiting()
    asks = read_record(cured)
    assert (asks.state, asks.why) == (
        State.VERIFY, "cured: the signal has ended; the node is checked before it comes back",
    )  # fmt: skip
    assert waits_for_verification(cured, FIRST)
    assert drain_text(cured), "nothing starts there"
    for on in (None, CHECKS):
        assert step(cured, on, after_s=60).after.state is State.VERIFY
    assert not waits_for_verification(cured, CHECKS), "it is not replaced again"
    back = read_record(stepped(cured, PASSED, after_s=70))
    assert (back.state, back.why) == (State.WELL, "cured: the signal has ended, and its check has passed")


def test_a_machine_that_is_sick_again_as_it_is_checked_is_not_remedied_for_ever():
    sick = node(label="broken", record=record(State.DRAINED, "mend", run=run_of(FIRST)))
    mended = node(record=read_record(stepped(sick, FIRST)))
    checked = stepped(stepped(mended, FIRST, after_s=100), FIRST, after_s=160)
    assert read_record(checked).state is State.VERIFY
    again = node(label="broken", record=read_record(checked))
    for _ in range(3):
        again = stepped(again, CHECKS, after_s=200)
    asks = read_record(again)
    assert (asks.state, asks.why) == (
        State.PERSON, "the node is sick again after its remedy, and mender is not asked twice",
    )  # fmt: skip


@pytest.mark.parametrize(("restarts", "is_checked"), [(0, False), (1, True)])
def test_a_start_since_the_cure_is_enough(restarts, is_checked):
    settling = stepped(node(record=drained()), FIRST)
    since = pod(drain=True, check_s=600, restarts=restarts, ready=True)
    after = stepped(settling, since, after_s=60)
    assert read_record(after).state is (State.WELL if is_checked else State.VERIFY)


STARTED = "2026-11-28T12:00:30Z"


@pytest.mark.parametrize(
    ("since", "state"),
    [
        pytest.param("2026-11-28T11:00:00Z", State.VERIFY, id="Slurm knows the slurmd before"),
        pytest.param("2026-11-28T12:00:30Z", State.WELL, id="it has registered"),
        pytest.param("2026-11-28T12:00:50Z", State.WELL, id="slurmd has run itself again"),
        pytest.param("2026-11-28T12:01:20Z", State.WELL, id="clocks differ"),
        pytest.param("2026-11-28T20:00:30Z", State.VERIFY, id="Slurm knows the slurmd before, whose clock was ahead"),
        pytest.param(None, State.WELL, id="a syncer of an older release"),
    ],
)
def test_a_start_whose_check_still_runs_has_not_passed_it(since, state):
    settling = stepped(node(record=drained()), FIRST)
    again = pod(drain=True, check_s=600, restarts=1, ready=True, started=STARTED, since=since)
    assert read_record(stepped(settling, again, after_s=60)).state is state


@pytest.mark.parametrize(
    ("since", "is_back"),
    [("2026-11-28T20:00:40Z", True), ("2026-11-28T20:00:20Z", False), ("2026-11-28T12:00:40Z", False)],
)
def test_while_the_clock_of_the_machine_is_ahead_its_times_are_compared_with_each_other(since, is_back):
    rebooted = node(boot="two", record=drained("kill", reason=KILLED))
    again = pod(slurm=KILLED, check_s=600, restarts=1, ready=True, started="2026-11-28T20:00:30Z", since=since)
    lifting = stepped(stepped(rebooted, again), again, after_s=60)
    assert read_record(lifting).state is (State.RETURNING if is_back else State.DRAINED)


# What registered while the clock was ahead is of an earlier start, and looks newer until the next one has registered.
@pytest.mark.parametrize(("restarts", "since"), [(1, "2026-11-28T11:00:00Z"), (2, "2026-11-28T20:00:30Z")])
def test_after_a_reboot_the_check_is_waited_for(restarts, since):
    rebooted = node(boot="two", record=drained("kill", reason=KILLED))
    again = {"slurm": KILLED, "check_s": 600, "restarts": restarts, "ready": True, "started": STARTED}
    checks = pod(since=since, **again)
    waits = stepped(stepped(rebooted, checks), checks, after_s=600)
    assert read_record(waits).state is State.DRAINED
    passed = pod(since="2026-11-28T12:08:00Z", **again)
    lifting = stepped(stepped(waits, passed, after_s=610), passed, after_s=670)
    assert read_record(lifting).state is State.RETURNING


def test_a_start_while_the_signal_was_there_is_none():
    again = pod(drain=True, check_s=600, restarts=1, ready=True)
    sick = stepped(node(label="bad", record=drained()), again)
    settling = stepped(node(record=read_record(sick)), again)
    assert read_record(stepped(settling, again, after_s=60)).state is State.VERIFY


def test_a_reboot_has_checked_the_machine_already():
    since = pod(slurm=KILLED, check_s=600, restarts=1, ready=True)
    rebooted = node(boot="two", record=drained("kill", reason=KILLED))
    lifting = stepped(stepped(rebooted, since), since, after_s=60)
    assert (read_record(lifting).why, lifted_reason(lifting)) == (
        f"the machine has started again, and its check has passed; lifting {KILLED!r}", KILLED,
    )  # fmt: skip
    same = pod(slurm=KILLED, check_s=600)
    assert read_record(stepped(stepped(rebooted, same), same, after_s=60)).state is State.VERIFY, "an old report"


def test_a_record_of_an_older_operator_counts_no_start():
    old = record(State.DRAINED, "label")
    assert read_record(stepped(stepped(node(record=old), FIRST), FIRST, after_s=60)).state is State.VERIFY


def test_a_check_that_fails_needs_a_person_and_leaves_its_log():
    asks = read_record(stepped(waiting(), FAILS, after_s=90))
    assert (asks.state, asks.signal, asks.why, asks.text, asks.log) == (
        State.PERSON,
        FAILED,
        "the check of the machine failed",
        "verify failed with 3: link mlx5_3 is down",
        "looking\nlink mlx5_3 is down",
    )


def test_what_the_pod_that_goes_still_says_is_not_the_check_that_was_asked_for():
    """Its next try may have begun before somebody mended the machine, and asked."""
    failed = stepped(waiting(), FAILS, after_s=90)
    asked = stepped(node(annotations=ASKED, record=read_record(failed)), FAILS, after_s=91)
    for ready in (False, True):
        next_try = pod(check_s=600, restarts=2, ready=ready, words=CHECK_FAILED, created=NEWER)
        assert step(asked, next_try, after_s=92).after.state is State.VERIFY
        assert waits_for_verification(asked, next_try)
    third = pod(check_s=600, restarts=1, words=CHECK_FAILED, created="2026-11-28T11:30:00Z")
    assert read_record(stepped(asked, third, after_s=93)).state is State.PERSON


def test_a_sick_node_that_passes_at_the_second_try_by_itself_still_needs_a_person_until_another_pod_passes():
    failed = stepped(waiting(), FAILS, after_s=90)
    lucky = pod(check_s=600, restarts=2, ready=True, words=CHECK_FAILED, created=NEWER)
    assert read_record(stepped(failed, lucky, after_s=10_000)).state is State.PERSON
    third = pod(drain=True, check_s=600, created="2026-11-28T11:30:00Z")
    back = read_record(stepped(failed, third, after_s=100))
    assert (back.state, back.why, back.log) == (
        State.WELL, "cured: another slurmd pod has started, and its check has passed", "",
    )  # fmt: skip


def test_a_check_that_hangs_where_nothing_can_end_it_needs_a_person():
    cured = waiting()
    checks = stepped(cured, CHECKS, after_s=60)
    assert read_record(checks).due == "2026-11-28T13:11:00Z"
    asks = read_record(stepped(checks, CHECKS, after_s=60 + 3600 + 600))
    assert (asks.state, asks.signal, asks.why) == (
        State.PERSON, FAILED, "the check of the machine has not ended after 70 min",
    )  # fmt: skip
    assert read_record(stepped(node(record=asks), PASSED, after_s=9000)).state is State.PERSON


def test_the_check_waits_for_jobs_as_long_as_they_take():
    """One flicker of a signal on a node with a long job asks for no person."""
    on = pod(drain=True, busy=True, check_s=600)
    waits = stepped(waiting(on), on, after_s=61)
    later = stepped(waits, on, after_s=10**6)
    assert (read_record(later).state, read_record(later).due) == (State.VERIFY, "")
    assert waits_for_verification(later, on)
    idle = stepped(later, FIRST, after_s=10**6)
    for after_s, state in ((4199, State.VERIFY), (4200, State.PERSON)):
        assert read_record(stepped(idle, FIRST, after_s=10**6 + after_s)).state is state
    assert read_record(stepped(idle, PASSED, after_s=10**6 + 70)).state is State.WELL


def test_a_check_that_waits_for_jobs_of_which_nobody_knows_needs_a_person_in_time():
    unread = told(FIRST, names.CONDITION_RUNNING, "Unknown")
    waits = stepped(waiting(), unread, after_s=61)
    for after_s, state in ((4199, State.VERIFY), (4200, State.PERSON)):
        assert read_record(stepped(waits, unread, after_s=61 + after_s)).state is state


def test_of_a_pod_that_is_gone_no_job_is_waited_for():
    busy = pod(drain=True, busy=True, check_s=600)
    gone = stepped(stepped(waiting(busy), busy, after_s=61), None, after_s=100)
    assert read_record(gone).due == "2026-11-28T13:01:40Z"
    assert read_record(stepped(gone, None, after_s=3700)).state is State.PERSON


def test_a_signal_that_comes_back_meanwhile_ends_the_check():
    back = node(label="bad", record=read_record(waiting()))
    assert read_record(stepped(back, CHECKS, after_s=70)).why == "the signal is back"
    assert read_record(stepped(back, PASSED, after_s=70)).state is State.DRAINING


def test_a_node_that_fails_its_check_when_it_joins_needs_a_person_at_once():
    joins = pod(slurm=None, check_s=600, restarts=1, words=CHECK_FAILED)
    asks = step(node(), joins, has_room=False)
    assert (asks.after.state, asks.after.signal, asks.is_held) == (State.PERSON, FAILED, False)
    assert drain_text(stepped(node(), joins)) == f"{FAILED}: verify failed with 3: link mlx5_3 is down"


# ------------------------------------------------------------------------------------------- the kubelet's next try


def tries(restarts, *, ready=None, words=CHECK_FAILED):
    """The same slurmd pod after `restarts` starts."""
    return pod(check_s=600, restarts=restarts, words=words, ready=ready)


def joined_badly(**changes):
    """A node that was well, and failed its check at the first start."""
    return stepped(node(**changes), tries(1))


def test_a_node_whose_check_alone_failed_comes_back_when_the_kubelets_next_try_passes():
    """Power is back before the file server: all nodes fail their first check."""
    failed = joined_badly()
    assert read_record(failed).state is State.PERSON
    passes = stepped(failed, tries(1, ready=True), after_s=100)
    assert (read_record(passes).state, read_record(passes).good_since) == (State.PERSON, "2026-11-28T12:01:40Z")
    assert step(passes, tries(1, ready=True), after_s=100).again_s == 660.0, "longer than any check may take"
    assert read_record(stepped(passes, tries(1, ready=True), after_s=759)).state is State.PERSON
    back = stepped(passes, tries(1, ready=True), after_s=760)
    assert (read_record(back).state, read_record(back).why) == (
        State.WELL, "cured: slurmd has started again, and its check has passed",
    )  # fmt: skip


def test_a_try_that_has_not_lasted_is_none():
    """Slurm knows the node by its last slurmd for a while: the pod looks ready while the next check runs."""
    passes = stepped(joined_badly(), tries(1, ready=True), after_s=100)
    fails = stepped(passes, tries(2), after_s=400)
    assert (read_record(fails).state, read_record(fails).good_since) == (State.PERSON, "")
    unseen = stepped(passes, tries(2, ready=True), after_s=760)
    assert read_record(unseen).state is State.PERSON, "another start, whose check may still run"
    assert read_record(stepped(unseen, tries(2, ready=True), after_s=760 + 660)).state is State.WELL


def test_the_failure_before_the_try_that_passed_counts_no_more():
    """The pod shows it for as long as the container runs, also while the pod is not ready for another reason."""
    passes = stepped(joined_badly(), tries(1, ready=True), after_s=100)
    back = stepped(passes, tries(1, ready=True), after_s=760)
    for after_s in (800, 9 * 86_400):
        assert step(back, tries(1, ready=False), after_s=after_s).changes == {}
    suspect = stepped(node(deadlock="True", record=read_record(back)), tries(1, ready=False), after_s=-1)
    calm = stepped(node(deadlock="False", record=read_record(suspect)), tries(1, ready=False))
    assert read_record(stepped(calm, tries(1, ready=False))).state is State.WELL
    assert read_record(stepped(back, tries(2), after_s=800)).signal == FAILED


def test_a_check_that_fails_now_and_then_needs_a_person_in_the_end():
    at = node()
    for number in (1, 2, 3, 4):
        at = stepped(at, tries(number), after_s=number * 2000)
        for after_s in (100, 760):
            at = stepped(at, tries(number, ready=True), after_s=number * 2000 + after_s)
    assert read_record(at).why == "cured, but the node came back 3 times in a day"


def test_another_signal_keeps_a_node_closed_whose_next_try_passes():
    passes = stepped(joined_badly(), tries(1, ready=True), after_s=100)
    sick = stepped(node(label="bad", record=read_record(passes)), tries(1, ready=True), after_s=760)
    assert (read_record(sick).state, read_record(sick).signal) == (State.CLOSING, "label")


def test_a_check_that_failed_before_the_cure_says_nothing():
    broken = pod(check_s=600, restarts=4, words=CHECK_FAILED)
    sick = stepped(node(label="bad", record=drained()), broken)
    assert read_record(sick).state is State.DRAINED
    cured = node(record=read_record(sick))
    assert read_record(stepped(stepped(cured, broken), broken, after_s=60)).state is State.VERIFY
    again = pod(check_s=600, restarts=5, words=CHECK_FAILED)
    assert read_record(stepped(cured, again)).state is State.PERSON, "it failed since"


@pytest.mark.parametrize("state", sorted(CLOSED - {State.VERIFY, State.PERSON}))
def test_a_closed_node_with_a_check_never_opens_without_one_that_passed(state):
    at = node(record=record(state, "label", run=run_of(FIRST)))
    for after_s in (0, 60, 120, 180):
        at = stepped(at, FIRST, after_s=after_s)
    assert read_record(at).state is State.VERIFY


# ------------------------------------------------------------------------------------------------------------ on demand

ASKED = {names.ANNOTATION_VERIFY: "ann"}


def after(at):
    return read_record(at)


def test_who_asks_gets_a_node_drained_checked_and_back():
    closing = stepped(node(annotations=ASKED), pod(check_s=600))
    assert (after(closing).state, drain_text(closing)) == (State.CLOSING, "verify: asked for by ann")
    busy = stepped(closing, pod(drain=True, busy=True, check_s=600))
    assert after(busy).state is State.DRAINING
    assert after(stepped(busy, pod(drain=True, busy=True, check_s=600), after_s=10**6)).state is State.DRAINING
    idle = stepped(busy, FIRST)
    checked = stepped(idle, FIRST)
    assert (after(checked).state, after(checked).why) == (State.VERIFY, "asked for by ann")
    assert waits_for_verification(checked, FIRST)
    back = stepped(checked, PASSED)
    assert (after(back).state, after(back).why) == (State.WELL, "its check has passed, asked for by ann")
    assert names.ANNOTATION_VERIFY not in back.annotations
    assert after(back).returns == (), "it was not sick"
    assert step(back, PASSED).changes == {}


@pytest.mark.parametrize("on", [pod(check_s=600), FIRST], ids=["no drain", "no answer"])
def test_a_check_on_demand_that_could_not_begin_in_time_begins_when_slurm_has_answered(on):
    at = stepped(node(annotations=ASKED), pod(check_s=600))
    for after_s in (0, 1, 3601):
        at = stepped(at, on, is_empty=False, after_s=after_s)
    late = at
    assert (after(late).state, after(late).signal) == (State.PERSON, REQUESTED)
    assert what_comes_next(after(late), "n1") == (
        "the node is checked when Slurm says that it is drained and no job is left"
    )
    assert waits_until_empty(late)
    assert step(late, FIRST, is_empty=False, after_s=4000).changes == {}
    assert after(stepped(late, FIRST, after_s=4000)).state is State.VERIFY
    called_off = node(record=after(late))
    assert after(stepped(called_off, FIRST, is_empty=False)).state is State.WELL


def test_a_check_on_demand_that_fails_needs_a_person_and_may_be_asked_for_again():
    checked = node(annotations=ASKED, record=record(State.VERIFY, "label", run=run_of(FIRST)))
    failed = stepped(checked, FAILS)
    assert (after(failed).state, after(failed).signal) == (State.PERSON, FAILED)
    assert names.ANNOTATION_VERIFY not in failed.annotations
    again = stepped(node(annotations=ASKED, record=after(failed)), FAILS)
    assert (after(again).state, after(again).signal, after(again).log) == (State.VERIFY, REQUESTED, "")
    assert waits_for_verification(again, FAILS)
    third = pod(drain=True, check_s=600, created="2026-11-28T11:30:00Z")
    assert after(stepped(again, third)).state is State.WELL


@pytest.mark.parametrize(
    ("label", "asks", "then"),
    [
        pytest.param("", record(State.PERSON, "fan"), State.VERIFY, id="the signal has ended"),
        pytest.param("loud", record(State.PERSON, "fan"), State.PERSON, id="the signal is still there"),
        pytest.param("", record(State.PERSON, "prolog", reason="Prolog error"), State.PERSON, id="a drain of Slurm's"),
    ],
)
def test_of_a_node_that_needs_a_person_only_what_sunkpy_set_may_come_back_by_a_check(label, asks, then):
    slurm = "Prolog error" if asks.reason else ""
    at = node(label=label, record=asks, annotations=ASKED)
    assert after(stepped(at, pod(drain=True, slurm=slurm, check_s=600))).state is then


def test_a_check_that_is_called_off_before_it_runs_gives_the_node_back():
    closing = stepped(node(annotations=ASKED), pod(check_s=600))
    off = stepped(node(record=after(closing)), FIRST)
    assert (after(off).state, after(off).why) == (State.WELL, "the check is not asked for any more")


def test_the_cap_holds_for_checks_on_demand_too():
    held = step(node(annotations=ASKED), pod(check_s=600), has_room=False)
    assert (held.after.state, held.is_held) == (State.SUSPECT, True)
    waits = node(annotations=ASKED, record=held.after)
    assert step(waits, pod(check_s=600), has_room=False).changes == {}, "it is told once"
    sick = stepped(node(label="bad", annotations=ASKED, record=held.after), pod(check_s=600))
    assert after(sick).signal == "label", "a signal is not hidden by it"


def test_another_signal_keeps_a_checked_node_closed():
    checked = node(label="bad", annotations=ASKED, record=after(stepped(node(record=drained()), FIRST)))
    verify = record(State.VERIFY, "deadlock", run=run_of(FIRST))
    assert after(stepped(node(label="bad", record=verify), PASSED)).signal == "label"
    assert after(stepped(checked, FIRST)).state is State.DRAINED


@pytest.mark.parametrize("on", [pod(), None], ids=["no check", "no pod"])
def test_without_a_check_nothing_is_done_for_who_asks(on):
    assert step(node(annotations=ASKED), on).changes == {}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("run-services: verify failed with 1", ("verify failed with 1", "")),
        ("a\nrun-services: verify took more than 600 s", ("verify took more than 600 s", "a")),
        (CHECK_FAILED + "\nrun-services: agent was killed", ("verify failed with 3", "looking\nlink mlx5_3 is down")),
        (
            "mounted\nrun-services: running verify\na\nrun-services: verify failed with 1\nTerminated",
            ("verify failed with 1", "a"),
        ),
        ("run-services: running verify\nrun-services: verify failed with 1\na", ("verify failed with 1", "a")),
        ("run-services: mount failed with 1", None),
        ("said: run-services: verify failed with 1", None),
        ("", None),
    ],
)
def test_the_words_of_run_services_are_read(words, found):
    assert failure_of(pod(check_s=600, restarts=1, words=words)) == found


def test_its_log_is_bounded():
    long = "\n".join(f"{number} {'é' * 40}" for number in range(60)) + "\nrun-services: verify failed with 1"
    _, log = failure_of(pod(check_s=600, restarts=1, words=long))
    assert len(log.encode()) <= 1000
    assert log.endswith("59 " + "é" * 40)

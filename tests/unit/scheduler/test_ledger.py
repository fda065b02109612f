import hypothesis
import hypothesis.strategies as st
import pytest

from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.states import SlurmJob
from sunkpy.core.placement.eligibility import Eligibility
from sunkpy.runtime.queue import Urgency
from sunkpy.runtime.settings import BadSettings, load
from sunkpy.scheduler.entries import JobEntry
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.settings import SchedulerSettings

RUNNING, PENDING = frozenset({"RUNNING"}), frozenset({"PENDING"})


def gang_id(uid):
    return GangId(namespace="default", name=uid, uid=uid)


def job(**fields):
    return JobEntry(id=7, known_at=0.0, **fields)


def test_an_answer_that_was_asked_for_before_a_prolog_called_is_too_old():
    entry = job(prologs={"n1": 5.0})
    assert not entry.observe(PENDING, asked_at=4.0)
    assert entry.view(6.0).start_nodes == ("n1",)


def test_an_answer_that_was_asked_for_before_another_does_not_undo_it():
    entry = job()
    entry.read(SlurmJob(id=7, state=RUNNING, tasks=2, devices={"n1": {"gpu": (0, 1)}}), nodes=("n1",), at=5.0)
    assert not entry.read(SlurmJob(id=7, state=PENDING, state_reason="Priority"), nodes=(), at=4.0)
    seen = entry.view(6.0)
    assert (seen.nodes, seen.tasks, seen.devices, seen.reason) == (("n1",), 2, {"n1": {"gpu": (0, 1)}}, "")
    assert entry.read(SlurmJob(id=7, state=RUNNING, tasks=2), nodes=("n1", "n2"), at=5.5)


def test_a_job_that_was_submitted_after_the_question_is_not_missing():
    entry = JobEntry(id=7, known_at=5.0)
    entry.observe(None, asked_at=4.0)
    assert entry.missing == 0


def test_a_job_that_is_queued_again_forgets_the_hooks_of_its_first_run():
    entry = job(state=RUNNING, prologs={"n1": 1.0}, epilogs={"n1": 2.0})
    entry.observe(PENDING, asked_at=3.0)
    assert entry.view(4.0).is_pending
    assert not entry.view(4.0).is_over


def test_a_job_that_is_queued_again_has_no_node_until_slurm_gives_it_one_anew():
    entry = job(state=RUNNING, nodes=("n1",), proved={"n1"})
    entry.observe(frozenset({"PENDING", "COMPLETING"}), asked_at=1.0, is_read=True)
    assert (entry.nodes, entry.proved) == (("n1",), {"n1"})  # its epilogs still call
    entry.observe(PENDING, asked_at=2.0)
    entry.observe(RUNNING, asked_at=3.0)
    assert entry.view(4.0).start_nodes == ()
    assert entry.proved == set()


def test_a_number_alone_costs_a_job_no_node_that_it_holds():
    entry = job(state=RUNNING, nodes=("n1",))
    assert not entry.observe(frozenset({"CANCELLED"}), asked_at=1.0)
    assert (entry.is_doubted, entry.state) == (True, RUNNING)
    assert entry.observe(frozenset({"CANCELLED"}), asked_at=2.0, is_read=True)
    assert (entry.is_doubted, entry.view(3.0).is_over) == (False, True)


def test_two_answers_without_a_job_do_not_lose_it_when_one_between_them_has_its_number():
    entry = job(state=RUNNING, nodes=("n1",))
    for state in (None, frozenset({"CANCELLED"}), None):
        entry.observe(state, asked_at=1.0)
    assert not entry.view(2.0).is_lost
    entry.observe(None, asked_at=1.0)
    assert entry.view(2.0).is_lost


def test_of_a_job_whose_epilog_has_called_the_number_is_believed():
    entry = job(state=RUNNING, nodes=("n1",), epilogs={"n1": 1.0})
    assert entry.observe(frozenset({"CANCELLED"}), asked_at=2.0)


def test_one_answer_without_the_job_proves_nothing_and_one_with_it_begins_anew():
    entry = job(state=RUNNING)
    for state in (None, RUNNING, None):
        entry.observe(state, asked_at=1.0)
        assert not entry.view(2.0).is_lost
    entry.observe(None, asked_at=1.0)
    assert entry.view(2.0).is_lost


def test_a_lost_id_that_comes_back_is_another_job_until_its_comment_says_otherwise():
    entry = job(state=RUNNING, missing=2)
    entry.observe(RUNNING, asked_at=1.0)
    assert entry.reappeared
    assert entry.view(2.0).is_lost
    entry.read(SlurmJob(id=7, state=RUNNING), nodes=("n1",), at=3.0)
    assert not entry.view(4.0).is_lost


def test_a_job_that_ended_and_was_forgotten_is_not_lost():
    entry = job(state=frozenset({"CANCELLED"}), missing=2)
    assert not entry.view(1.0).is_lost
    assert entry.view(1.0).is_settled


def test_a_job_id_that_slurm_uses_again_belongs_to_the_new_gang():
    ledger = Ledger()
    old, new = (ledger.ensure(gang_id(uid)) for uid in ("old", "new"))
    ledger.add_job(old, 7, user="k8s")
    ledger.add_job(new, 7, user="ann")
    assert ledger.by_job(7) is new
    assert old.jobs == {}
    ledger.forget(old)
    assert ledger.by_job(7) is new


@pytest.mark.parametrize(
    ("fields", "urgency"),
    [
        ({}, Urgency.NONE),
        ({"state": PENDING}, Urgency.NONE),
        ({"state": RUNNING}, Urgency.SOON),
        ({"prologs": {"n1": 1.0}}, Urgency.SOON),
        ({"is_allocation": True}, Urgency.SOON),
    ],
)
def test_a_gang_is_urgent_once_its_job_has_nodes_and_an_allocation_has_them_at_once(fields, urgency):
    ledger = Ledger(lambda: 0.0)
    entry = ledger.ensure(gang_id("web"))
    entry.jobs[7] = job(**fields)
    assert ledger.urgency(entry.id) is urgency


@pytest.mark.parametrize(
    ("fields", "urgency"),
    [
        ({"state": RUNNING}, Urgency.SOON),
        ({"state": RUNNING, "epilogs": {"n1": 1.0}}, Urgency.FIRST),
        ({"state": frozenset({"PREEMPTED", "COMPLETING"})}, Urgency.FIRST),
        ({"state": frozenset({"CANCELLED"})}, Urgency.FIRST),
    ],
)
def test_a_gang_goes_before_all_others_once_its_nodes_wait_to_be_left(fields, urgency):
    ledger = Ledger(lambda: 0.0)
    entry = ledger.ensure(gang_id("web"))
    entry.jobs[7], entry.bound_to = job(**fields), 7
    assert ledger.urgency(entry.id) is urgency


def test_the_delay_between_submits_grows_and_ends_when_something_changes():
    entry = Ledger().ensure(gang_id("uid"))
    delays = [entry.back_off("no", now=0.0) for _ in range(12)]
    assert delays == sorted(delays)
    assert (delays[0], delays[-1]) == (2.0, 300.0)
    entry.forgive()
    assert entry.view(None, placed={}, now=0.0).may_submit


def test_a_node_that_refused_a_gang_is_offered_to_it_again_after_a_while():
    entry = Ledger().ensure(gang_id("uid"))
    entry.refuse_node("n1", "OutOfcpu", now=0.0)
    both = Eligibility(eligible=("n1", "n2"))
    assert entry.eligibility(both, now=1.0).eligible == ("n2",)
    assert entry.eligibility(both, now=1000.0).eligible == ("n1", "n2")


GOOD = "cluster: c\nslurm: {url: 'http://r:6820', user: k8s, tokenFile: /t}\n"


def test_settings_have_defaults_for_all_but_the_cluster(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(GOOD)
    settings = load(path, SchedulerSettings)
    assert (settings.scheduler_name, settings.gpu_resources) == ("slurm", {"nvidia.com/gpu": "gpu"})


@pytest.mark.parametrize("typo", ["schedulrName: x", "hooks: {prt: 1}", "slurm: {url: x}"])
def test_a_typo_in_the_settings_is_refused(tmp_path, typo):
    path = tmp_path / "config.yaml"
    path.write_text(typo + "\n" + (GOOD if not typo.startswith("slurm") else "cluster: c\n"))
    with pytest.raises(BadSettings):
        load(path, SchedulerSettings)


EXCLUDED = [(), ("n1",), ("n1", "n2")]


@hypothesis.given(
    st.lists(
        st.tuples(
            st.sampled_from(["submit", "read", "exclude", "send", "cancel", "end", "drop", "forget", "look"]),
            st.integers(0, 3),
            st.integers(0, 2),
        ),
        max_size=50,
    )
)
def test_the_gangs_that_exclude_nodes_are_found_without_a_look_at_all(course):
    ledger = Ledger(lambda: 0.0)
    for what, number, detail in course:
        entry, id = ledger.ensure(gang_id(f"{number}")), number + 1
        match what, entry.jobs.get(id):
            case "submit", _:
                ledger.add_job(ledger.ensure(gang_id(f"{(number + detail) % 4}")), id, user="k8s", excluded=EXCLUDED[1])
            case "send", _:
                ledger.note_sending(entry, EXCLUDED[detail])
            case "forget", _:
                ledger.forget(entry)
            case "look", _:
                list(ledger.excluding())
            case _, None:
                pass
            case "read", known:
                found = SlurmJob(id=id, state=PENDING, excluded_nodes=EXCLUDED[detail])
                known.read(found, nodes=(), at=1.0)
            case "exclude", known:
                known.exclude(EXCLUDED[detail])
            case "cancel", known:
                known.cancelled_at = 1.0
            case "end", known:
                known.observe(frozenset({"COMPLETED"}), asked_at=1.0)
            case "drop", _:
                ledger.drop_job(entry, id)
        assert {e.id for e in ledger.excluding()} == {e.id for e in ledger if e.excluded}

import pytest

from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.job import is_news
from sunkpy.core.gang.job.phases import JobPhase
from sunkpy.core.model.states import SlurmJob
from sunkpy.core.placement.eligibility import Eligibility
from sunkpy.runtime.queue import Urgency
from sunkpy.runtime.settings import BadSettings, load
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.record import Recognised
from sunkpy.scheduler.settings import SchedulerSettings
from tests.unit.core.gang.jobs import change_job, make_job

RUNNING, PENDING = frozenset({"RUNNING"}), frozenset({"PENDING"})


def gang_id(uid):
    return GangId(namespace="default", name=uid, uid=uid)


def test_an_answer_that_was_asked_for_before_a_prolog_called_is_too_old():
    job = make_job(nodes=("n1",)).began("n1", at=5.0)
    assert job.observed(PENDING, asked_at=4.0) is job
    assert job.start_nodes == ("n1",)


def test_an_answer_that_was_asked_for_before_another_does_not_undo_it():
    asked = SlurmJob(id=7, state=RUNNING, nodes=("n1",), tasks=2, devices={"n1": {"gpu": (0, 1)}})
    job = make_job().read(asked, at=5.0)
    assert job.slurm == asked
    assert job.read(SlurmJob(id=7, state=PENDING, state_reason="Priority"), at=4.0) is job
    later = SlurmJob(id=7, state=RUNNING, nodes=("n1", "n2"), tasks=2)
    assert is_news(job.read(later, at=5.5), job)


def test_a_job_that_was_submitted_after_the_question_is_not_missing():
    job = make_job(known_at=5.0)
    assert job.observed(None, asked_at=4.0) is job


def test_an_answer_that_tells_nothing_new_makes_no_other_job():
    for job in (make_job("RUNNING", nodes=("n1",), epilogs={"n1"}), make_job("PENDING"), make_job("CANCELLED")):
        assert job.observed(frozenset(set(job.state)), asked_at=9.0) is job


def test_what_slurm_says_of_priorities_is_no_news():
    job = make_job("PENDING").read(SlurmJob(id=7, state=PENDING, state_reason="Priority", priority=5), at=1.0)
    again = job.read(SlurmJob(id=7, state=PENDING, state_reason="Priority", priority=6), at=2.0)
    assert not is_news(again, job)
    assert is_news(again.read(SlurmJob(id=7, state=PENDING, state_reason="Resources"), at=3.0), again)


def test_a_job_that_is_queued_again_forgets_the_hooks_of_its_first_run():
    job = make_job("RUNNING").began("n1", at=1.0).ended("n1", at=2.0).observed(PENDING, asked_at=3.0)
    assert job.phase is JobPhase.PENDING
    assert not job.is_over


def test_a_job_that_is_queued_again_has_no_node_until_slurm_gives_it_one_anew():
    job = make_job("RUNNING", nodes=("n1",))
    job = job.observed(frozenset({"PENDING", "COMPLETING"}), asked_at=1.0)
    assert job.nodes == ("n1",)  # its epilogs still call
    job = job.observed(PENDING, asked_at=2.0).observed(RUNNING, asked_at=3.0)
    assert (job.start_nodes, job.nodes) == ((), ())


def test_one_answer_without_the_job_proves_nothing_and_one_with_it_begins_anew():
    job = make_job("RUNNING")
    for state in (None, RUNNING, None):
        job = job.observed(state, asked_at=1.0)
        assert not job.is_lost
    assert job.observed(None, asked_at=1.0).is_lost


def test_a_job_whose_id_is_anothers_is_lost_until_it_is_read_as_its_gangs_own():
    job = make_job("RUNNING", nodes=("n1",), is_anothers=True)
    assert job.is_lost
    assert job.observed(frozenset({"CANCELLED"}), asked_at=1.0) is job
    assert not job.read(SlurmJob(id=7, state=RUNNING, nodes=("n1",)), at=3.0).is_lost


def test_a_job_that_ended_and_was_forgotten_is_not_lost():
    job = make_job("CANCELLED", missing=2)
    assert not job.is_lost
    assert job.is_settled


def test_a_job_id_that_slurm_uses_again_belongs_to_the_new_gang():
    ledger = Ledger()
    old, new = (ledger.ensure(gang_id(uid)) for uid in ("old", "new"))
    ledger.add_job(old, SlurmJob(id=7, user="k8s"))
    ledger.add_job(new, SlurmJob(id=7, user="ann"))
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
        ({"prologs": {"n1"}}, Urgency.SOON),
        ({"is_allocation": True}, Urgency.SOON),
    ],
)
def test_a_gang_is_urgent_once_its_job_has_nodes_and_an_allocation_has_them_at_once(fields, urgency):
    ledger = Ledger(lambda: 0.0)
    record = ledger.ensure(gang_id("web"))
    record.jobs[7] = change_job(make_job(), **fields)
    assert ledger.urgency(record.id) is urgency


@pytest.mark.parametrize(
    ("fields", "urgency"),
    [
        ({"state": RUNNING}, Urgency.SOON),
        ({"state": RUNNING, "epilogs": {"n1"}}, Urgency.FIRST),
        ({"state": frozenset({"PREEMPTED", "COMPLETING"})}, Urgency.FIRST),
        ({"state": frozenset({"CANCELLED"})}, Urgency.FIRST),
    ],
)
def test_a_gang_goes_before_all_others_once_its_nodes_wait_to_be_left(fields, urgency):
    ledger = Ledger(lambda: 0.0)
    record = ledger.ensure(gang_id("web"))
    record.jobs[7], record.bound_to = change_job(make_job(), **fields), 7
    assert ledger.urgency(record.id) is urgency


def test_the_delay_between_submits_grows_and_ends_when_something_changes():
    record = Ledger().ensure(gang_id("uid"))
    delays = [record.back_off("no", now=0.0) for _ in range(12)]
    assert delays == sorted(delays)
    assert (delays[0], delays[-1]) == (2.0, 300.0)
    record.forgive()
    assert record.snapshot(Recognised(), placed={}, now=0.0).may_submit


def tries_in_a_day(change_again_s):
    """How often a day a gang's job is given back, if the gang changes each `change_again_s` and no node takes it."""
    record, tries = Ledger().ensure(gang_id("uid")), 0
    for now in range(86400):
        if now % change_again_s == 0:
            record.forgive_change(now=now)
        if now >= record.retry_at:
            record.was_submitted()
            record.give_back("no", kind="no", now=now)
            tries += 1
    return tries


@pytest.mark.parametrize("change_again_s", [1, 10, 60])
def test_what_changes_all_the_time_and_is_always_refused_is_tried_little_oftener_than_others(
    change_again_s,
):
    assert tries_in_a_day(10**6) == 26
    assert tries_in_a_day(change_again_s) <= 3 * 26


def test_a_change_is_tried_at_once_when_the_last_was_long_ago_or_had_helped():
    record = Ledger().ensure(gang_id("uid"))
    for now in (0.0, 5000.0, 10000.0):
        record.back_off("no", now=now)
        record.forgive_change(now=now)
        assert (record.retry_at <= now, record.refused) == (True, "")
    record.back_off("no", now=10001.0)
    record.forgive_change(now=10001.0)
    assert record.retry_at > 10001.0
    record.now_under(7)
    record.back_off("no", now=10002.0)
    record.forgive_change(now=10002.0)
    assert record.retry_at <= 10002.0


def test_a_node_that_refused_a_gang_is_offered_to_it_again_after_a_while():
    record = Ledger().ensure(gang_id("uid"))
    record.refusals["n1"] = ("OutOfcpu", 120.0)
    both = Eligibility(eligible=("n1", "n2"))
    for now, left in ((1.0, ("n2",)), (121.0, ("n1", "n2"))):
        record.forget_refused_nodes(now=now)
        assert record.eligibility(both).eligible == left


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

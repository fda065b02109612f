import pytest

from sunkpy.core.gang.job.ends import (
    JOB_LOST,
    NEWEST_KNOWN,
    EndCause,
    begun_between,
    begun_candidates,
    cause_of_end,
    choose_preemptor,
    find_violated,
    named,
    pending_candidates,
)
from sunkpy.core.model.objects import Budget, BudgetSpec, BudgetStatus, LabelSelector, Meta, Pod, SelectorRequirement
from sunkpy.core.model.states import SlurmJob

TIERS = {"low": 1, "high": 10}


def pending(id, **fields):
    return SlurmJob(id=id, **({"state": frozenset({"PENDING"}), "partition": "high", "user": "alice"} | fields))


def test_a_preempted_pod_learns_which_job_took_its_place():
    cause = named(cause_of_end(12, frozenset({"PREEMPTED", "COMPLETING"})), pending(57))
    assert cause.reason == "PreemptionByScheduler"
    assert cause.message == "Slurm job 12 was preempted by Slurm job 57 (user alice, partition high)"


def test_only_a_preemption_is_by_another_job():
    cancelled = cause_of_end(12, frozenset({"CANCELLED"}))
    assert named(cancelled, pending(57)) == cancelled
    preempted = cause_of_end(12, frozenset({"PREEMPTED"}))
    assert named(preempted, None) == preempted


@pytest.mark.parametrize(
    ("state", "reason", "text"),
    [
        ({"TIMEOUT"}, "SlurmJobTimeout", "reached its time limit"),
        ({"CANCELLED", "COMPLETING"}, "SlurmJobCancelled", "was cancelled"),
        ({"NODE_FAIL"}, "SlurmNodeFail", "lost its node"),
        ({"COMPLETED"}, "SlurmJobEnded", "ended"),
        ({"SUSPENDED"}, "SlurmJobSuspended", "was suspended, which pods cannot be"),
        (set(), "SlurmJobEnded", "ended"),
    ],
)
def test_every_end_has_a_reason_and_a_text(state, reason, text):
    cause = cause_of_end(12, frozenset(state))
    assert (cause.reason, cause.message) == (reason, f"Slurm job 12 {text}")


@pytest.mark.parametrize(
    "state", ["PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "SUSPENDED", "PENDING", "REQUEUED", "RUNNING"]
)
def test_pods_of_a_job_that_lost_its_nodes_are_disrupted(state):
    assert cause_of_end(12, frozenset({state})).condition == "DisruptionTarget"
    assert EndCause(reason=JOB_LOST, message="").condition == "DisruptionTarget"


@pytest.mark.parametrize("state", ["TIMEOUT", "DEADLINE", "CANCELLED", "OUT_OF_MEMORY", "FAILED"])
def test_pods_of_a_job_that_ended_by_its_own_limits_or_a_person_are_not(state):
    """A Job that ignores disruptions would make them again for ever."""
    assert cause_of_end(12, frozenset({state, "COMPLETING"})).condition == "sunkpy.dev/JobEnded"


def choose(*jobs, preempted="lowest", ended_s=0, waited=(1, 2, 3), **named):
    lately = {int(k[1:]): frozenset(v) for k, v in named.items()}
    ended = SlurmJob(id=99, partition=preempted, ended_s=ended_s)
    return choose_preemptor(jobs, node="n1", preempted=ended, waited=waited, tiers=TIERS, named=lately)


def test_a_job_that_cannot_preempt_is_never_named():
    assert choose(pending(1, partition="low"), preempted="low") is None
    assert choose(pending(1, partition="low"), pending(2, partition="high"), preempted="low").id == 2


def test_the_higher_tier_wins_then_priority_then_age():
    low = pending(1, partition="low", priority=900)
    assert choose(low, pending(2, priority=10), pending(3, priority=20), pending(4, priority=20)).id == 3


@pytest.mark.parametrize("fields", [{"scheduled_nodes": ("n1", "n2"), "node_count": 2}, {"required_nodes": ("n1",)}])
def test_a_job_that_slurm_plans_there_is_the_one(fields):
    assert choose(pending(1, priority=50), pending(2, priority=1, **fields)).id == 2


def test_a_job_that_has_begun_there_meanwhile_is_the_one():
    begun = pending(2, state=frozenset({"RUNNING"}), nodes=("n1", "n2"))
    assert choose(pending(1, priority=50), begun).id == 2
    assert choose(pending(1), pending(2, state=frozenset({"RUNNING"}), nodes=("n2",))).id == 1


def began(id, started_s, *, state="RUNNING", **fields):
    return pending(id, state=frozenset({state}), nodes=("n1",), started_s=started_s, **fields)


def test_of_several_that_have_begun_there_it_is_the_first_and_of_two_in_one_second_none():
    assert choose(began(1, 51), began(2, 50, state="COMPLETED"), pending(3)).id == 2
    assert choose(began(1, 50), began(2, 50), pending(3)) is None


@pytest.mark.parametrize(
    ("started_s", "ended_s", "is_named"), [(101, 100, True), (100, 100, True), (99, 100, False), (101, 0, False)]
)
def test_a_job_that_nobody_saw_waiting_counts_if_it_began_after_the_preempted_one_had_ended(
    started_s, ended_s, is_named
):
    found = choose(began(1, started_s, state="COMPLETED"), waited=(), ended_s=ended_s)
    assert (found is not None) is is_named


def test_what_began_in_the_second_of_the_end_is_not_named_where_another_is_sure_or_planned():
    beside = began(1, 100)
    assert choose(beside, began(2, 101), waited=(), ended_s=100).id == 2
    assert choose(beside, pending(2, required_nodes=("n1",)), waited=(), ended_s=100).id == 2
    assert choose(beside, pending(2), waited=(), ended_s=100).id == 1


def test_nobody_is_named_for_one_that_may_have_taken_the_node_before():
    """It is not known when the preempted job ended: Slurm has purged it, or it waits again."""
    assert choose(began(1, 101), pending(2), waited=(), ended_s=0) is None


def test_of_those_that_waited_the_newest_that_have_begun_are_looked_at():
    states = {id: frozenset({"RUNNING", "CONFIGURING"}) for id in range(200)} | {500: frozenset({"PENDING"})}
    states |= {501: frozenset({"COMPLETED"})}
    assert begun_candidates(states, [1, 3, 500, 501, 502], is_known=lambda _: False) == (501, 3, 1)
    assert begun_candidates(states, range(1, 200), is_known=lambda _: False) == (199, 198, 197, 196, 195)


@pytest.mark.parametrize(
    "fields", [{"excluded_nodes": ("n1",)}, {"required_nodes": ("n2",)}, {"partition": "elsewhere"}]
)
def test_a_job_that_cannot_use_the_node_is_not_the_one(fields):
    assert choose(pending(1, **fields)) is None


def test_a_job_that_has_all_its_nodes_takes_no_more():
    jobs = (pending(1, priority=50), pending(2, priority=1))
    assert choose(*jobs, _1={"n2"}).id == 2
    assert choose(*jobs, _1={"n1"}).id == 1
    assert choose(pending(1, node_count=2), pending(2), _1={"n2"}).id == 1


def test_what_began_between_two_answers_is_looked_at_whether_it_waited_or_is_new():
    waits, runs, ended = (frozenset({each}) for each in ("PENDING", "RUNNING", "COMPLETED"))
    before = {1: waits, 2: runs, 3: runs, 4: waits}
    now = {1: runs, 2: runs, 3: ended, 4: waits, 5: ended, 6: waits}
    assert begun_between(before, now, is_known=lambda _: False) == (5, 1)


def test_only_the_newest_pending_jobs_are_looked_at_and_fewer_of_those_that_have_to_be_asked_for():
    states = {id: frozenset({"PENDING"}) for id in range(200)} | {500: frozenset({"RUNNING"})}
    assert pending_candidates(states, is_known=lambda _: False) == (199, 198, 197, 196, 195)
    assert pending_candidates(states, is_known=lambda id: id % 2 == 1) == (
        *(199, 198, 197, 196, 195, 194, 193, 192, 191, 190), *range(189, 199 - 2 * NEWEST_KNOWN, -2),
    )  # fmt: skip


WEB = LabelSelector(match_labels={"app": "web"})
NOT_WEB = LabelSelector(match_expressions=(SelectorRequirement(key="app", operator="NotIn", values=("web",)),))


@pytest.mark.parametrize(
    ("selector", "healthy", "is_violated"),
    [
        (WEB, 1, True),
        (WEB, 2, False),
        (WEB, 3, False),
        (NOT_WEB, 1, False),
        (LabelSelector(), 1, True),
        (None, 1, False),
    ],
)
def test_a_budget_is_violated_when_fewer_of_its_pods_are_healthy_than_should_be(selector, healthy, is_violated):
    status = BudgetStatus(current_healthy=healthy, desired_healthy=2)
    budget = Budget(metadata=Meta(name="web"), spec=BudgetSpec(selector=selector), status=status)
    assert find_violated(Pod(metadata=Meta(labels={"app": "web"})), [budget]) == (budget if is_violated else None)

import pytest

from sunkpy.core.gang.causes import NEWEST_PENDING, cause_of_end, choose_taker, pending_to_look_at
from sunkpy.core.slurm import SlurmJob

TIERS = {"low": 1, "high": 10}


def pending(id, **fields):
    return SlurmJob(id=id, **({"state": frozenset({"PENDING"}), "partition": "high", "user": "alice"} | fields))


def test_a_preempted_pod_learns_which_job_took_its_place():
    cause = cause_of_end(12, frozenset({"PREEMPTED", "COMPLETING"}), pending(57))
    assert cause.reason == "PreemptionByScheduler"
    assert cause.message == "Slurm job 12 was preempted by Slurm job 57 (user alice, partition high)"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"TIMEOUT"}, "SlurmJobTimeout"),
        ({"CANCELLED", "COMPLETING"}, "SlurmJobCancelled"),
        ({"NODE_FAIL"}, "SlurmNodeFail"),
        ({"COMPLETED"}, "SlurmJobEnded"),
        ({"SUSPENDED"}, "SlurmJobSuspended"),
        (set(), "SlurmJobEnded"),
    ],
)
def test_every_end_has_a_reason(state, reason):
    assert cause_of_end(12, frozenset(state)).reason == reason


def test_the_higher_tier_wins_then_priority_then_age():
    jobs = [
        pending(1, partition="low", priority=900),
        pending(2, priority=10),
        pending(3, priority=20),
        pending(4, priority=20),
    ]
    assert choose_taker(jobs, nodes=["n1"], tiers=TIERS).id == 3


def test_a_job_that_slurm_plans_there_is_the_one():
    jobs = [pending(1, priority=50), pending(2, priority=1, scheduled_nodes="n[1-2]")]
    assert choose_taker(jobs, nodes=["n1"], tiers=TIERS).id == 2


def test_a_job_that_may_not_use_the_node_is_not_the_one():
    assert choose_taker([pending(1, excluded_nodes=("n1",))], nodes=["n1"], tiers=TIERS) is None


def test_only_the_newest_pending_jobs_are_looked_at():
    states = {id: frozenset({"PENDING"}) for id in range(200)} | {500: frozenset({"RUNNING"})}
    assert pending_to_look_at(states) == tuple(range(199, 199 - NEWEST_PENDING, -1))

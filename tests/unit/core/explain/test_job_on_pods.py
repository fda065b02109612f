import pytest

from sunkpy.core.explain.job_on_pods import read_job
from sunkpy.core.gang.actions import Report
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.decide.queued import NEVER_STARTS
from sunkpy.core.gang.job.ends import cause_of_end
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.snapshot import Snapshot
from tests.unit.core.explain.situations import with_condition
from tests.unit.core.gang.jobs import make_job
from tests.unit.core.gang.pods import gang_of, make_pod

JOB = {"sunkpy.dev/job-id": "7"}


def waiting(message, **fields):
    return with_condition(make_pod(**fields), "PodScheduled", "False", "Unschedulable", message)


@pytest.mark.parametrize("reason", ["Resources", "Priority", *NEVER_STARTS])
def test_a_reason_that_the_scheduler_has_told_is_read_back(reason):
    pod = make_pod()
    job = make_job("PENDING", reason=reason, partition="low,high")
    snapshot = Snapshot(id=gang_of(pod).id, gang=gang_of(pod), jobs=(job,))
    (report,) = [a for a in decide_gang(snapshot, Policy(gpu_resources={})) if isinstance(a, Report)]
    assert read_job([waiting(report.message)], placed=()).job == job


def test_what_is_no_id_of_a_job_is_not_read_as_one():
    assert read_job([waiting(f"Slurm job {'9' * 5000} waits: Priority")], placed=()).job is None


def test_a_pod_with_a_node_holds_it_by_the_job_that_it_names():
    told = read_job([make_pod(annotations=JOB, node="a")], placed=["n-a"])
    assert told.is_bound
    assert told.job == make_job("RUNNING", nodes=("n-a",))


@pytest.mark.parametrize("flag", ["PREEMPTED", "TIMEOUT", "CANCELLED"])
def test_a_pod_that_was_told_to_go_says_what_became_of_its_job(flag):
    cause = cause_of_end(7, frozenset({flag}))
    pod = with_condition(make_pod(annotations=JOB, node="a"), cause.condition, "True", cause.reason, cause.message)
    told = read_job([pod], placed=["n-a"])
    assert told.job is not None
    assert told.job.state == {flag}


@pytest.mark.parametrize(
    "message",
    ["submit job web (partition low): Invalid account", "Slurm job 6 ended before its pod was bound"],
)
def test_a_job_that_slurm_did_not_take_is_no_job(message):
    told = read_job([waiting(message, annotations=JOB)], placed=())
    assert (told.job, told.refused) == (None, message)


def test_of_any_other_job_only_the_number_is_known():
    assert read_job([make_pod(annotations=JOB)], placed=()).job == make_job()
    for text in ("no", "9" * 5000, ""):
        assert read_job([make_pod(annotations={"sunkpy.dev/job-id": text})], placed=()).job is None
    assert read_job([make_pod(annotations=JOB, node="a", phase="Succeeded")], placed=()).is_bound is False

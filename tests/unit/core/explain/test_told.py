import pytest

from sunkpy.core.explain.told import told_by
from sunkpy.core.gang.actions import Report
from sunkpy.core.gang.decide import NEVER_STARTS, decide_gang
from sunkpy.core.gang.ends import cause_of_end
from sunkpy.core.gang.request import Policy
from sunkpy.core.gang.view import GangView, JobView
from tests.unit.core.explain.situations import with_condition
from tests.unit.core.gang.pods import gang_of, make_pod

JOB = {"sunkpy.dev/job-id": "7"}


def waiting(message, **fields):
    return with_condition(make_pod(**fields), "PodScheduled", "False", "Unschedulable", message)


@pytest.mark.parametrize("reason", ["Resources", "Priority", *NEVER_STARTS])
def test_a_reason_that_the_scheduler_has_told_is_read_back(reason):
    pod = make_pod()
    job = JobView(id=7, state=frozenset({"PENDING"}), reason=reason)
    view = GangView(id=gang_of(pod).id, gang=gang_of(pod), jobs=(job,))
    (report,) = [a for a in decide_gang(view, Policy(gpu_resources={})) if isinstance(a, Report)]
    assert told_by([waiting(report.message)], placed=()).job == job


def test_what_is_no_id_of_a_job_is_not_read_as_one():
    assert told_by([waiting(f"Slurm job {'9' * 5000} waits: Priority")], placed=()).job is None


def test_a_pod_with_a_node_holds_it_by_the_job_that_it_names():
    told = told_by([make_pod(annotations=JOB, node="a")], placed=["n-a"])
    assert told.is_bound
    assert told.job == JobView(id=7, state=frozenset({"RUNNING"}), nodes=("n-a",))


@pytest.mark.parametrize("flag", ["PREEMPTED", "TIMEOUT", "CANCELLED"])
def test_a_pod_that_was_told_to_go_says_what_became_of_its_job(flag):
    cause = cause_of_end(7, frozenset({flag}))
    pod = with_condition(make_pod(annotations=JOB, node="a"), "DisruptionTarget", "True", cause.reason, cause.message)
    told = told_by([pod], placed=["n-a"])
    assert told.job is not None
    assert told.job.state == {flag}


@pytest.mark.parametrize(
    "message",
    ["submit job web (partition low): Invalid account", "Slurm job 6 ended before its pod was bound"],
)
def test_a_job_that_slurm_did_not_take_is_no_job(message):
    told = told_by([waiting(message, annotations=JOB)], placed=())
    assert (told.job, told.refused) == (None, message)


def test_of_any_other_job_only_the_number_is_known():
    assert told_by([make_pod(annotations=JOB)], placed=()).job == JobView(id=7)
    for text in ("no", "9" * 5000, ""):
        assert told_by([make_pod(annotations={"sunkpy.dev/job-id": text})], placed=()).job is None
    assert told_by([make_pod(annotations=JOB, node="a", phase="Succeeded")], placed=()).is_bound is False

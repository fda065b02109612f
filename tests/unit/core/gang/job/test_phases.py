"""The phases of a job against what each predicate means by itself, for all that can be known of a job."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st

from sunkpy.core.gang.job import phases
from sunkpy.core.gang.job.phases import JobPhase
from tests.unit.core.gang.jobs import make_job

ENDS = ["COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED"]
BASES = ["", "PENDING", "RUNNING", "SUSPENDED", *ENDS]
STATES = st.builds(
    lambda base, flags: flags | {base} if base else frozenset(),
    st.sampled_from(BASES),
    st.frozensets(st.sampled_from(["COMPLETING", "CONFIGURING", "REQUEUED"])),
)
JOBS = st.builds(
    lambda state, **fields: make_job(*state, **fields),
    STATES,
    prologs=st.frozensets(st.sampled_from(["n1", "n2"])),
    epilogs=st.frozensets(st.sampled_from(["n3"])),
    missing=st.integers(0, 3),
    is_anothers=st.booleans(),
)


def is_gone(job):
    return job.missing >= 2 or job.is_anothers


def has_ended(job):
    return bool(job.state & set(ENDS))


def is_over(job):
    if "NODE_FAIL" in job.state:
        return False
    if job.epilogs and "PENDING" not in job.state:
        return True
    return has_ended(job) or "COMPLETING" in job.state


def is_lost(job):
    return "NODE_FAIL" in job.state or (is_gone(job) and not is_over(job))


def is_pending(job):
    return "PENDING" in job.state and not job.prologs


def holds(job):
    return not is_over(job) and "SUSPENDED" not in job.state and not is_pending(job)


@hypothesis.given(JOBS)
def test_each_set_of_phases_is_what_it_is_by_what_is_known(job):
    assert (job.phase in phases.OVER) == is_over(job)
    assert (job.phase in phases.LOST) == is_lost(job)
    assert (job.phase in phases.LIVE) == (not is_over(job) and not is_lost(job))
    assert (job.phase in phases.SETTLED) == ((has_ended(job) and "COMPLETING" not in job.state) or is_gone(job))


@hypothesis.given(JOBS.filter(lambda job: not is_lost(job)))
def test_of_a_job_that_is_not_lost_what_holds_its_node_and_what_was_stopped(job):
    stopped = "SUSPENDED" in job.state or is_pending(job)
    assert (job.phase in phases.HOLDING) == holds(job)
    is_first_run_over = {"PENDING", "COMPLETING"} <= job.state and job.prologs  # what queues again has no prologs left
    if not (is_over(job) and (has_ended(job) or is_gone(job) or is_first_run_over)):
        assert (job.phase in phases.STOPPED) == stopped


@hypothesis.given(JOBS.filter(lambda job: not is_lost(job) and not is_over(job)))
def test_of_a_live_job_whether_it_waits(job):
    assert (job.phase is JobPhase.PENDING) == (is_pending(job) and "SUSPENDED" not in job.state)
    assert (job.phase is JobPhase.SUSPENDED) == ("SUSPENDED" in job.state)
    assert (job.phase is JobPhase.SUBMITTED) == (not (job.state or job.prologs or job.missing))


def test_each_job_is_over_lost_or_live():
    kinds = [*phases.OVER, *phases.LOST, *phases.LIVE]
    assert (set(kinds), len(kinds)) == (set(JobPhase), len(JobPhase))

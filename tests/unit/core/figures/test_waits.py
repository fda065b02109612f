"""How long jobs waited until they started."""

from __future__ import annotations

import msgspec
import pytest

from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.figures.waits import WaitTimes

RUNNING = frozenset({"RUNNING"})
JOB = JobRow(id=1, state=RUNNING, account="chem", partition="low", started_s=1001, waited_s=90)


def waits(since_s: int = 1000) -> WaitTimes:
    found = WaitTimes()
    found.begin(since_s)
    return found


def change(job: JobRow, **changes: object) -> JobRow:
    return msgspec.structs.replace(job, **changes)


def shown(times: WaitTimes) -> dict[tuple[str, ...], float]:
    return {sample.labels: sample.value for sample in times.family.samples}


def counts(times: WaitTimes) -> dict[tuple[str, ...], float]:
    return {key[:-1]: value for key, value in shown(times).items() if key[-1] == "_count"}


def test_a_wait_is_in_each_bucket_that_is_long_enough() -> None:
    times = waits()
    times.add([JOB, change(JOB, id=2, waited_s=60), change(JOB, id=3, waited_s=10**7)], is_whole=True)
    found = shown(times)
    of_le = {key[-1]: value for key, value in found.items()}
    assert (of_le["10"], of_le["60"], of_le["300"], of_le["604800"], of_le["+Inf"]) == (0, 1, 2, 2, 3)
    assert found["chem", "low", "Slurm", "_sum"] == 90 + 60 + 10**7
    assert len(found) == times.family.lines, "one histogram"


def test_pods_and_jobs_of_people_are_apart() -> None:
    times = waits()
    times.add([JOB, change(JOB, id=2, comment="k8s:a/b:c"), change(JOB, id=3, account="bio")], is_whole=True)
    assert counts(times) == {("chem", "low", "Slurm"): 1, ("chem", "low", "Kubernetes"): 1, ("bio", "low", "Slurm"): 1}


def test_a_start_counts_once_however_often_it_is_read() -> None:
    times = waits()
    for state in ("RUNNING", "RUNNING", "COMPLETED"):
        times.add([change(JOB, state=frozenset({state}))], is_whole=True)
    assert counts(times) == {("chem", "low", "Slurm"): 1}


def test_a_requeued_job_counts_again_when_it_starts_again() -> None:
    times = waits()
    waiting = change(JOB, state=frozenset({"PENDING"}), started_s=0, waited_s=0)
    for job in (JOB, waiting, change(JOB, started_s=1500)):
        times.add([job], is_whole=True)
    assert counts(times) == {("chem", "low", "Slurm"): 2}


def test_a_job_that_was_not_read_for_a_while_does_not_count_again() -> None:
    times = waits()
    for jobs, is_whole in (([JOB], True), ([], False), ([JOB], True)):
        times.add(jobs, is_whole=is_whole)
    assert counts(times) == {("chem", "low", "Slurm"): 1}


@pytest.mark.parametrize(("since_s", "counted"), [(1000, 1), (1001, 0), (0, 0)])
def test_only_what_starts_in_this_term_counts(since_s: int, counted: int) -> None:
    """1001: the leader before may have counted it. 0: Slurm has not said what time it is."""
    times = waits(since_s)
    times.begin(2000)
    times.add([JOB], is_whole=True)
    assert sum(counts(times).values()) == (counted if since_s else 0)


def test_a_job_that_has_not_started_does_not_count() -> None:
    times = waits()
    times.add([change(JOB, started_s=0)], is_whole=True)
    assert counts(times) == {}

from __future__ import annotations

import pytest

from tests.families.cases import Case, JobShape
from tests.families.compare import (
    SeenJob,
    SeenPod,
    job_of,
    memory_mib,
    waves,
    wrong_jobs,
    wrong_preemption,
    wrong_return,
)

GANG = Case(manifest="a.yaml", jobs=(JobShape(1, 1, 128), JobShape(4, 4, 512)), preempt="gang")


def seen(*shapes: JobShape) -> list[SeenJob]:
    return [SeenJob(id=number, shape=shape, state="RUNNING") for number, shape in enumerate(shapes, 1)]


def pods(text: str) -> list[SeenPod]:
    """`a1x` is pod a of job 1 on node x."""
    return [SeenPod(uid=word[0], name=word[0], job=int(word[1]), node=word[2]) for word in text.split()]


def test_the_jobs_of_a_manifest_are_a_set_in_which_order_says_nothing():
    assert wrong_jobs(GANG, seen(JobShape(4, 4, 512), JobShape(1, 1, 128))) == []


@pytest.mark.parametrize(
    ("jobs", "says"),
    [
        ([], ["no job of 1 pods, 1 cpus, 128 MiB", "no job of 4 pods, 4 cpus, 512 MiB"]),
        (
            [JobShape(1, 1, 128), JobShape(4, 8, 512)],
            ["no job of 4 pods, 4 cpus, 512 MiB", "not wanted: job 2 (RUNNING): 4 pods, 8 cpus, 512 MiB"],
        ),
        (
            [JobShape(1, 1, 128), JobShape(4, 4, 512), JobShape(1, 1, 128, 2)],
            ["not wanted: job 3 (RUNNING): 1 pods, 1 cpus, 128 MiB, 2 GPUs"],
        ),
    ],
)
def test_what_is_missing_and_what_is_too_much_is_named(jobs: list[JobShape], says: list[str]):
    assert wrong_jobs(GANG, seen(*jobs)) == says


def test_equal_jobs_are_counted():
    three = Case(manifest="a.yaml", jobs=(JobShape(1, 1, 128),) * 3)
    assert wrong_jobs(three, seen(JobShape(1, 1, 128))) == ["no job of 1 pods, 1 cpus, 128 MiB (2 times)"]


@pytest.mark.parametrize(
    ("state", "pods", "is_right"), [("CANCELLED", 0, True), ("CANCELLED", 1, False), ("RUNNING", 0, False)]
)
def test_a_job_that_was_given_back_before_a_pod_came_to_it_does_not_count(state: str, pods: int, is_right: bool):
    more = SeenJob(id=9, shape=JobShape(pods, 1, 128), state=state)
    wanted = JobShape(1, 2, 256)
    assert (wrong_jobs(Case(manifest="m", jobs=(wanted,)), [*seen(wanted), more]) == []) is is_right


def test_another_set_may_be_right_as_well():
    either = Case(manifest="a.yaml", jobs=GANG.jobs, also=((JobShape(5, 5, 640),),))
    assert wrong_jobs(either, seen(JobShape(5, 5, 640))) == []
    assert wrong_jobs(either, seen(*GANG.jobs)) == []


def test_a_job_is_read_from_what_it_was_given_or_else_asks_for():
    record = {"JobId": "7 (x)", "JobState": "RUNNING", "AllocTRES": "cpu=2,mem=1.25G,node=1,gres/gpu=3,gres/gpu:h100=3"}
    assert job_of(record, 2).shape == JobShape(2, 2, 1280, 3)
    pending = {"JobId": "8", "JobState": "PENDING", "ReqTRES": "cpu=4,mem=640M,node=2", "AllocTRES": "(null)"}
    assert job_of(pending, 0).shape == JobShape(0, 4, 640)


@pytest.mark.parametrize(("text", "mib"), [("640M", 640), ("1G", 1024), ("1.50G", 1536), ("0", 0), ("2T", 2 * 1024**2)])
def test_memory_of_slurm(text: str, mib: int):
    assert memory_mib(text) == mib


def test_pods_made_in_the_same_second_are_one_wave():
    times = ["10:00:01", "10:00:01", "10:00:09", "10:00:01"]
    assert waves([SeenPod(uid=str(n), name=str(n), made=made) for n, made in enumerate(times)]) == [3, 1]


@pytest.mark.parametrize(
    ("preempt", "gone", "says"),
    [
        ("gang", "abc", []),
        ("gang", "ab", ["c stayed, though job 1 was preempted"]),
        ("gang", "bc", ["a stayed on x"]),
        ("gang", "abcd", ["d went, though nothing was taken from job 2"]),
        ("pod", "ab", []),
        ("elastic pods alone first", "ab", []),
    ],
)
def test_a_gang_goes_whole_and_nobody_else_goes(preempt: str, gone: str, says: list[str]):
    case = Case(manifest="a.yaml", jobs=(), preempt=preempt)
    assert wrong_preemption(case, pods("a1x b1x c1y d2y"), set(gone), node="x") == says


def test_an_owner_that_restarts_all_may_take_the_pods_of_other_jobs_away_and_must_not_leave_the_gang_standing():
    case = Case(manifest="a.yaml", jobs=(), preempt="gang", comes_back="PodEvicted -> RestartJob")
    before = pods("a1x b1x c1y d2y")
    gang, all_of_it = {before[number].uid for number in (0, 1, 2)}, {pod.uid for pod in before}
    assert wrong_preemption(case, before, all_of_it, node="x") == []
    assert wrong_preemption(case, before, gang, node="x") == []
    assert wrong_preemption(case, before, all_of_it - {before[2].uid}, node="x")


@pytest.mark.parametrize(
    ("comes_back", "returned", "says"),
    [
        ("yes, for ever", 3, []),
        ("yes", 0, ["no pod came back"]),
        ("no: bare pod", 0, []),
        ("no: bare pod", 1, ["1 pods came back, expected: no: bare pod"]),
        ("as backoffLimit 6 allows", 0, []),
        ("", 2, []),
    ],
)
def test_owners_bring_pods_back_as_expected(comes_back: str, returned: int, says: list[str]):
    assert wrong_return(Case(manifest="a.yaml", jobs=(), comes_back=comes_back), returned) == says

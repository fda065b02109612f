"""What jobs lost because nodes failed under them."""

from __future__ import annotations

import msgspec
import pytest

from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.figures.lost import LostWork
from sunkpy.core.model.states import SlurmNode

JOB = JobRow(id=1, state=frozenset({"RUNNING"}), nodes=("n1", "n2"), cpus=8, gpus=2, started_s=1000)
UP, DOWN = frozenset({"IDLE"}), frozenset({"DOWN"})


def nodes(**states: frozenset[str]) -> dict[str, SlurmNode]:
    return {name: SlurmNode(name=name, state=state) for name, state in states.items()}


WELL, ONE_DOWN = nodes(n1=UP, n2=UP), nodes(n1=UP, n2=DOWN)


def later(*flags: str, started_s: int = 1000) -> JobRow:
    return msgspec.structs.replace(JOB, state=frozenset(flags), started_s=started_s)


def lost(*reads: tuple[JobRow, dict[str, SlurmNode]], is_whole: bool = True) -> dict[tuple[str, ...], float]:
    work = LostWork(lambda node: "gpu" if node == "n1" else "")
    for at, (job, seen) in enumerate(reads):
        work.add([job], seen, 1100 + 100 * at, is_whole=is_whole)
    return {sample.labels: sample.value for family in work.families for sample in family.samples}


@pytest.mark.parametrize(
    ("now", "seen", "how"),
    [
        pytest.param(later("NODE_FAIL"), ONE_DOWN, "failed", id="Slurm ends it"),
        pytest.param(later("BOOT_FAIL"), WELL, "failed", id="its node does not boot"),
        pytest.param(later("PENDING", started_s=0), ONE_DOWN, "requeued", id="Slurm queues it again"),
        pytest.param(later("RUNNING", started_s=1150), ONE_DOWN, "requeued", id="it runs again already"),
        pytest.param(later("PENDING", started_s=0), nodes(n1=UP), "requeued", id="a node is gone"),
        pytest.param(later("PENDING", started_s=0), WELL, "", id="it was preempted"),
        pytest.param(later("COMPLETED"), ONE_DOWN, "", id="it had ended"),
        pytest.param(later("CANCELLED", "COMPLETING"), ONE_DOWN, "", id="it was cancelled"),
        pytest.param(later("RUNNING"), ONE_DOWN, "", id="it goes on"),
    ],
)
def test_a_run_that_a_failed_node_ended_is_lost(now, seen, how):
    expected = {("gpu", how): 1, ("gpu", how, "cpu"): 800, ("gpu", how, "gpu"): 200} if how else {}
    assert lost((JOB, WELL), (now, seen)) == expected


def test_it_counts_once_up_to_the_last_read_at_which_it_ran():
    reads = [(JOB, WELL), (JOB, WELL), (later("NODE_FAIL"), ONE_DOWN), (later("NODE_FAIL"), ONE_DOWN)]
    assert lost(*reads) == {("gpu", "failed"): 1, ("gpu", "failed", "cpu"): 1600, ("gpu", "failed", "gpu"): 400}


def test_a_job_that_was_not_read_this_time_is_remembered_unless_all_were():
    work = LostWork(lambda _: "")
    for jobs, is_whole in (([JOB], True), ([], False), ([later("NODE_FAIL")], False)):
        work.add(jobs, WELL, 1200, is_whole=is_whole)
    assert [sample.value for sample in next(iter(work.families)).samples] == [1]
    work.add([JOB], WELL, 1300, is_whole=True)
    work.add([], WELL, 1400, is_whole=True)
    work.add([later("NODE_FAIL")], WELL, 1500, is_whole=True)
    assert [sample.value for sample in next(iter(work.families)).samples] == [1]


def test_nothing_is_known_while_slurm_does_not_say_its_time():
    work = LostWork(lambda _: "")
    work.add([JOB], WELL, 0, is_whole=True)
    work.add([later("NODE_FAIL")], WELL, 1500, is_whole=True)
    assert [list(family.samples) for family in work.families] == [[], []]

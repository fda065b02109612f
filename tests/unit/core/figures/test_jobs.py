"""Jobs as slurmctld counts them."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.figures.family import MetricFamily
from sunkpy.core.figures.jobs import JobRow, Tally, job_families

ROW = JobRow(id=1, state=frozenset({"PENDING"}), user="ann", account="chem", partition="low")
RUNNING = msgspec.structs.replace(
    ROW, state=frozenset({"RUNNING"}), nodes=("n1", "n2"), cpus=4, memory_mib=100, gpus=2, min_nodes=2
)


def figures(*jobs: JobRow, tiers: dict[str, int] | None = None) -> dict[tuple[str, tuple[str, ...]], float]:
    families = job_families(jobs, {"low": 1, "high": 10} if tiers is None else tiers)
    return {(family.name, labels): value for family in families for labels, value in family.samples}


def change(job: JobRow, **changes: object) -> JobRow:
    return msgspec.structs.replace(job, **changes)


def test_each_task_of_an_array_waits_and_a_record_is_one_job_of_its_user() -> None:
    found = figures(change(ROW, tasks=7), RUNNING)
    assert (found["slurm_jobs_pending", ()], found["slurm_jobs", ()]) == (7, 8)
    assert (found["slurm_user_jobs_pending", ("ann",)], found["slurm_user_jobs", ("ann",)]) == (7, 2)


def test_what_jobs_have_counts_while_they_run_or_are_suspended() -> None:
    ended = change(RUNNING, state=frozenset({"COMPLETED"}))
    found = figures(RUNNING, change(RUNNING, state=frozenset({"SUSPENDED"}), nodes=("n2", "n3")), ended)
    ends = {end: found[f"slurm_jobs_{end}", ()] for end in ("cpus_alloc", "memory_alloc", "gpus_alloc", "nodes_alloc")}
    assert ends == {"cpus_alloc": 8, "memory_alloc": 200, "gpus_alloc": 4, "nodes_alloc": 3}


def test_the_most_nodes_that_one_of_a_partition_waits_for() -> None:
    held = change(ROW, min_nodes=8, max_nodes=16, reason="JobHeldUser")
    found = figures(change(ROW, min_nodes=4), held, change(ROW, min_nodes=2, max_nodes=6), RUNNING)
    ends = ("max_job_nodes", "min_job_nodes", "max_job_nodes_nohold", "min_job_nodes_nohold")
    assert [found[f"slurm_partition_jobs_{end}", ("low",)] for end in ends] == [16, 8, 6, 4]
    assert found["slurm_partition_jobs_hold", ("low",)] == 1


def test_a_job_of_several_partitions_counts_in_the_highest() -> None:
    found = figures(change(ROW, partition="low,high"))
    assert (found["slurm_partition_jobs", ("low",)], found["slurm_partition_jobs", ("high",)]) == (0, 1)


def test_a_partition_without_jobs_has_its_zeros() -> None:
    assert figures(tiers={"idle": 1})["slurm_partition_jobs_pending", ("idle",)] == 0


def test_a_job_that_ends_counts_in_its_partition_until_its_epilog_is_over() -> None:
    completing = change(RUNNING, state=frozenset({"COMPLETED", "COMPLETING"}))
    found = figures(completing, change(completing, state=frozenset({"COMPLETED"})))
    assert (found["slurm_partition_jobs", ("low",)], found["slurm_jobs_completed", ()]) == (1, 2)
    assert (found["slurm_jobs_completing", ()], found["slurm_jobs_finished", ()]) == (1, 2)


def test_what_waits_is_counted_by_reason() -> None:
    found = figures(change(ROW, reason="Resources"), change(ROW, reason="Priority", tasks=3), change(ROW, reason=""))
    waiting = {labels: value for (name, labels), value in found.items() if name == "sunkpy_jobs_pending"}
    assert waiting == {("low", "Resources"): 1, ("low", "Priority"): 3, ("low", "None"): 1}


STATES = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
          "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY")  # fmt: skip
BASE = ("pending", "running", "suspended", "completed", "cancelled", "failed", "timeout", "node_failed", "preempted",
        "bootfail", "deadline", "outofmemory")  # fmt: skip
rows = st.builds(
    JobRow,
    id=st.integers(1, 9),
    state=st.builds(lambda base, more: frozenset({base, *more}), st.sampled_from(STATES),
                    st.sets(st.sampled_from(("COMPLETING", "CONFIGURING", "REQUEUED")))),
    reason=st.sampled_from(("", "Resources", "JobHeldUser")),
    user=st.sampled_from(("ann", "bob")),
    account=st.sampled_from(("chem", "bio", "")),
    partition=st.sampled_from(("low", "high", "low,high")),
    tasks=st.integers(1, 5),
    nodes=st.sampled_from(((), ("n1",), ("n1", "n2"))),
    cpus=st.integers(0, 9),
    gpus=st.integers(0, 9),
)  # fmt: skip


@given(st.lists(rows))
def test_sums_agree(jobs: list[JobRow]) -> None:
    """States add up to all; users, accounts and partitions each add up to all, figure by figure."""
    families = {family.name: family for family in job_families(jobs, {"low": 1, "high": 10})}

    def total(family: MetricFamily) -> float:
        return sum(value for _, value in family.samples)

    assert sum(total(families[f"slurm_jobs_{state}"]) for state in BASE) == total(families["slurm_jobs"])
    for end in Tally().common:
        of_all = total(families[f"slurm_jobs_{end}"])
        for kind in ("user", "account", "partition"):
            family = families.get(f"slurm_{kind}_jobs_{end}")
            assert (total(family) if family is not None else 0) == of_all
    assert total(families["sunkpy_jobs_pending"]) == total(families["slurm_jobs_pending"])

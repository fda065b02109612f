"""`kubectl sunk jobs` on a real Slurm: the commands that it makes hold, release, requeue and cancel what was named."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from sunkpy.core.model.states import JobId
from sunkpy.core.overview.job_verbs import JobVerb, command_for, is_job_number
from sunkpy.slurm import Slurm
from tests.integration.slurm.daemons import RealSlurm
from tests.integration.slurm.test_real_explain import becomes, filled

pytestmark = pytest.mark.integration

SCRIPT = r"printf '#!/bin/sh\nsleep 100\n' | sbatch --parsable -p low -o /dev/null"


def act(pool: RealSlurm, verb: JobVerb, *numbers: str) -> tuple[int, str]:
    """Act as the command does in slurmctld's pod; return the exit code and what Slurm says."""
    assert all(map(is_job_number, numbers))
    code, said = pool.run_as("slurm", *command_for(verb, numbers))
    return code, said.strip()


def submit(pool: RealSlurm, options: str = "") -> str:
    code, said = pool.run_as("k8s", "sh", "-c", f"{SCRIPT} {options}")
    assert code == 0, said
    return said.strip()


def queue(pool: RealSlurm) -> Mapping[str, str]:
    """The reason of each job, task and component that waits, by the number that squeue prints."""
    code, said = pool.run_as("slurm", "squeue", "--noheader", "--array", "--states=PENDING", "--format=%i %r")
    assert code == 0, said
    return dict(line.split(" ", 1) for line in said.splitlines())


def held(pool: RealSlurm) -> set[str]:
    return {number for number, reason in queue(pool).items() if reason.startswith("JobHeld")}


async def test_tasks_and_components_among_other_jobs_are_held_released_and_cancelled(
    pool: RealSlurm, keeper: Slurm
) -> None:
    await filled(keeper)
    array, plain, leader = submit(pool, "--array=1-9"), submit(pool), submit(pool, "-N 1 : -N 1")
    named = (f"{array}_[3,5]", plain, f"{array}_[7-8]", f"{leader}+1")
    tasks = {f"{array}_{task}" for task in (3, 5, 7, 8)}
    assert act(pool, JobVerb.HOLD, *named) == (0, "")
    assert held(pool) == {*tasks, plain, f"{leader}+1"}
    assert act(pool, JobVerb.HOLD, leader, f"{array}_1") == (0, "")
    assert held(pool) == {*tasks, plain, f"{array}_1", f"{leader}+0", f"{leader}+1"}
    assert act(pool, JobVerb.RELEASE, *named) == (0, "")
    assert held(pool) == {f"{array}_1", f"{leader}+0"}
    assert act(pool, JobVerb.RELEASE, leader, array) == (0, "")
    assert held(pool) == set()
    code, said = act(pool, JobVerb.CANCEL, *named)
    assert (code != 0, f"job id {leader}+1: Operation not permitted on individual component" in said) == (True, True)
    left = {f"{array}_{task}" for task in (1, 2, 4, 6, 9)}
    assert queue(pool).keys() == {*left, f"{leader}+0", f"{leader}+1"}, "what Slurm refuses keeps nothing else"
    assert act(pool, JobVerb.CANCEL, array, leader) == (0, "")
    assert queue(pool).keys() == set()


async def test_running_jobs_and_tasks_are_requeued_together(pool: RealSlurm, keeper: Slurm) -> None:
    first, second, array = submit(pool), submit(pool), submit(pool, "--array=1-3")
    for job in (first, second, array):
        await becomes(keeper, JobId(int(job)), lambda state: state == {"RUNNING"})
    assert act(pool, JobVerb.REQUEUE, first, f"{array}_[1,3]", second) == (0, "")
    _, shown = pool.run_as("slurm", "scontrol", "--oneliner", "show", "job")
    restarts = re.findall(r"^JobId=(\d+) (?:ArrayJobId=\d+ ArrayTaskId=(\S+) )?.* Restarts=(\d)", shown, re.MULTILINE)
    came_back = {task or job for job, task, count in restarts if count == "1"}
    assert came_back == {first, second, "1", "3"}, shown
    pool.run_as("slurm", "scancel", first, second, array)

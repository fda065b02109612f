"""The slurmd pod of a node is replaced within seconds, while jobs hold this node and another one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import pytest

from sunkpy.core.model.job_spec import JobSpec
from tests.integration.slurm.site import Site
from tests.polling import until

pytestmark = pytest.mark.integration

_BOTH: Final = "--nodelist=c1,c2 --nodes=2 --mem=100 --time=9"
_BATCH: Final = f"cd; sbatch --parsable {_BOTH} --output=told-%j --wrap='sleep 600'"
_ALLOCATE: Final = f"cd; salloc --no-shell {_BOTH} 2>&1 | sed -n 's/.* job allocation //p' | tail -n 1"
_KEEP: Final = _ALLOCATE.replace("--no-shell", "--no-shell --no-kill")
_PODS: Final = JobSpec(
    comment="k8s:chem/gang:1",
    tasks=2,
    minimum_nodes=2,
    maximum_nodes=2,
    memory_mib_per_node=100,
    required_nodes=("c1", "c2"),
    script="#!/bin/sh\nsleep 600",
)


@pytest.fixture
async def pods(site: Site) -> AsyncIterator[tuple[str, str]]:
    """Ids of two jobs of pods: one with a script, and an allocation."""
    scheduler = site.connect("k8s")
    service = await scheduler.allocate_now(_PODS)
    assert service is not None, site.logs()
    batch = await scheduler.submit_job(_PODS)
    yield str(batch.job_id), str(service.job_id)
    for each in (batch, service):
        await scheduler.cancel_job(each.job_id)
    await scheduler.close()
    await site.clear()


async def test_jobs_end_that_lost_a_node_and_those_of_pods_live_on(site: Site, pods: tuple[str, str]) -> None:
    """No step would start on the node: its slurmd does not know the jobs, and slurmctld seeks it at the old address."""
    scripts = (_BATCH, f"{_BATCH} --no-requeue", _ALLOCATE, _KEEP)
    again, once, *allocations = [await _submit(site, each) for each in scripts]
    everything = (again, once, *allocations, *pods)

    async def run() -> bool:
        return all([" JobState=RUNNING Reason=None " in await _job(site, each) for each in everything])

    await until(run, timeout_s=120, what="all run")
    first = {re.findall(r" BatchHost=(\S+)", await _job(site, each))[0] for each in everything}
    (lost,) = {"c1", "c2"} - first
    await asyncio.to_thread(site.kill_slurmd_container, lost)

    async def is_over(job: str) -> bool:
        return " JobState=CANCELLED " in await _job(site, job)

    for each in allocations:
        await until(partial(is_over, each), timeout_s=60, what="the allocation is over")
    # The node of this test sees the scripts on the other one.
    said = await asyncio.to_thread(site.look_for_lost, lost)
    assert set(said.splitlines()) == {
        f"start-slurmd: job {again} died with the previous slurmd and is requeued",
        f"start-slurmd: job {once} has lost this node with the previous pod and is cancelled",
    }
    assert " Restarts=1 " in await _job(site, again)
    await until(lambda: is_over(once), timeout_s=20, what="the job that may not be requeued is over")
    for each in (again, once, *allocations):
        assert f" AdminComment=the slurmd pod of {lost} was replaced" in await _job(site, each)
    outs = [site.slurm.root / f"home/ann/told-{each}" for each in (again, once)]
    says = f"the slurmd pod of {lost} was replaced, so the job has lost this node"

    async def is_told() -> bool:
        return all(says in out.read_text() for out in outs)

    await until(is_told, timeout_s=20, what="both jobs are told")
    for each in pods:
        assert " JobState=RUNNING Reason=None " in await _job(site, each)
    node = await asyncio.to_thread(site.slurm.run_as, "slurm", "scontrol", "-o", "show", "node", lost)
    assert "DRAIN" not in node[1]


async def _submit(site: Site, script: str) -> str:
    """Id of a job of ann's."""
    code, said = await asyncio.to_thread(site.shell, "ann", script)
    assert (code, said.strip().isdigit()) == (0, True), said
    return said.strip()


async def _job(site: Site, job: str) -> str:
    return (await asyncio.to_thread(site.slurm.run_as, "slurm", "scontrol", "-o", "show", "job", job))[1]

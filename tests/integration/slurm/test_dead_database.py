"""MariaDB dies while gangs and jobs run: they go on, new ones start, and all are on record once it is back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sunkpy.slurm import Slurm
from tests.integration.slurm.site import Site
from tests.integration.slurm.test_scheduling import ended_as, runs, sbatch, submitted
from tests.polling import until

pytestmark = pytest.mark.integration

NODES = ("c1", "c2", "c3")


@pytest.fixture
async def mortal(site: Site) -> AsyncIterator[Site]:
    """A site whose database dies in tests and lives again in the end."""
    yield site
    if site.accounting.mariadb.poll() is not None:
        await asyncio.to_thread(site.accounting.start_mariadb)


async def test_gangs_and_jobs_go_on_and_are_on_record_once_it_is_back(mortal: Site, scheduler: Slurm) -> None:
    site = mortal
    gang = {"required_nodes": NODES, "minimum_nodes": 3, "maximum_nodes": 3, "tasks": 3}
    stays, ends = [await submitted(scheduler, user, **gang) for user in ("ann", "bob")]
    for each in (stays, ends):
        await runs(scheduler, each)
    site.accounting.mariadb.kill()
    site.accounting.mariadb.wait()

    # With its account and limits, for slurmctld knows them.
    began = await submitted(scheduler, "ann", **gang)
    await runs(scheduler, began)
    await scheduler.cancel_job(ends, user="bob")
    await ended_as(scheduler, ends, "CANCELLED")
    job = await asyncio.to_thread(sbatch, site, "ann", "--wrap='sleep 0.2'")
    await ended_as(scheduler, job, "COMPLETED")
    assert sorted((await scheduler.job(stays)).nodes) == list(NODES)

    await asyncio.to_thread(site.accounting.start_mariadb)
    states = {job: "COMPLETED", ends: "CANCELLED", stays: "RUNNING", began: "RUNNING"}
    how = ("--allocations", "--noheader", "--parsable2", "--format=jobid,state", f"--jobs={','.join(map(str, states))}")

    async def is_on_record() -> bool:
        code, said = await asyncio.to_thread(site.slurm.run_as, "slurm", "sacct", *how)
        rows = [row.split("|") for row in said.splitlines()] if code == 0 else []
        return {int(number): state.split()[0] for number, state in rows} == states

    try:
        await until(is_on_record, timeout_s=120, what="all to be on record")
    except TimeoutError as error:
        raise AssertionError(f"{error}: {site.slurm.run_as('slurm', 'sacct', *how)}\n{site.logs()}") from None
    for each in (stays, began):
        await runs(scheduler, each)

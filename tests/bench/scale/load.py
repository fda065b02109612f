"""Jobs that start and end all the time, submitted to slurmrestd: a busy cluster for sunkpy and slurmctld."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from sunkpy.core.model.job_spec import JobSpec
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import AlreadyDone, NotFound, SlurmError
from tests.bench.ground import beside

STARTS_PER_S = 20
_RUNS_S = 10.0
_JOB = JobSpec(name="load", script="#!/bin/sh\n", comment="plain", memory_mib_per_node=64)


class Starts:
    """How many submits have succeeded (`submitted`) and failed (`failed`) so far."""

    def __init__(self) -> None:
        self.submitted = 0
        self.failed = 0


@contextlib.asynccontextmanager
async def job_starts(slurm: Slurm) -> AsyncIterator[Starts]:
    """Submit `STARTS_PER_S` jobs a second while the block runs; each job is ended after ten seconds."""
    starts = Starts()
    async with beside(_start_all(slurm, starts)):
        yield starts


async def _start_all(slurm: Slurm, starts: Starts) -> None:
    """Submit jobs at a constant rate, however long slurmctld takes for each."""
    began_s, count = time.monotonic(), 0
    async with asyncio.TaskGroup() as group:
        while True:
            group.create_task(_one(slurm, starts))
            count += 1
            await asyncio.sleep(max(0.0, began_s + count / STARTS_PER_S - time.monotonic()))


async def _one(slurm: Slurm, starts: Starts) -> None:
    try:
        job = (await slurm.submit_job(_JOB)).job_id
        starts.submitted += 1
        await asyncio.sleep(_RUNS_S)
        with contextlib.suppress(AlreadyDone, NotFound):
            await slurm.cancel_job(job)
    except SlurmError:
        starts.failed += 1

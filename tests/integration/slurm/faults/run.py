"""One run: load and faults side by side, then quiet until nothing moves any more, and the judgement."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from tests.integration.slurm.faults.admin import Admin
from tests.integration.slurm.faults.judge import Finding, judge
from tests.integration.slurm.faults.load import Load, plan_jobs
from tests.integration.slurm.faults.record import Record, Row
from tests.integration.slurm.faults.saboteur import Saboteur, Sizes, Tell, longest_s, plan_steps, untold
from tests.integration.slurm.site import Site
from tests.polling import until

ENDS_S: Final = 240.0
STILL_S: Final = 12.0
"""slurmctld speaks to a slurmdbd that did not answer again after ten seconds."""
_LONGER: Final = 4
"""There are jobs until the last fault, also where all takes longer."""


class Outcome(NamedTuple):
    """What a run saw, what of it must not be or is a limit of Slurm, and records that an admin could not close."""

    record: Record
    findings: Sequence[Finding]
    still_open: Sequence[str]


async def carry_out(site: Site, *, seed: int, sizes: Sizes, tell: Tell) -> Outcome:
    """Run it on a site that is to stop afterwards."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=32))
    await site.settle()
    steps = plan_steps(seed, sizes)
    jobs = plan_jobs(seed, until_s=_LONGER * longest_s(steps), every_s=sizes.every_s)
    load, saboteur, admin, started_s = Load(site), Saboteur(site, tell), Admin(site), time.time()
    tell(f"seed {seed}: {len(steps)} faults in about {longest_s(steps):.0f} s, a submission each {sizes.every_s:g} s")
    keeping = asyncio.create_task(admin.keep_nodes())
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load.run(jobs, started_s=started_s))
            await saboteur.run(steps)
            load.is_over.set()
        await _end_jobs(site, load, admin)
    finally:
        keeping.cancel()
    rows = await _told(site, load, since_s=started_s)
    await admin.close_records()
    still_open = [row.task.text for row in load.rows(since_s=started_s) if row.is_open]
    record = Record(
        submitted=tuple(load.submitted),
        runs=tuple(load.runs()),
        rows=tuple(rows),
        kills=tuple(saboteur.kills),
        away=tuple(saboteur.away),
        ends=tuple(saboteur.ends),
    )
    return Outcome(record, judge(record), still_open)


async def _end_jobs(site: Site, load: Load, admin: Admin) -> None:
    """Wait until none is left."""

    async def are_gone() -> bool:
        left = await asyncio.to_thread(load.queue)
        if left is None:
            return False
        await admin.requeue_ended(left, load.runs())
        await admin.start(left)
        return not left

    try:
        await until(are_gone, timeout_s=ENDS_S, every_s=0.5, what="all jobs to end")
    except TimeoutError as error:
        raise TimeoutError(f"{error}: {site.slurm.run_as('slurm', 'squeue')[1]}") from None


async def _told(site: Site, load: Load, *, since_s: float) -> list[Row]:
    """What slurmdbd says when it has been told everything: no record without an end, or none that changes any more."""
    rows: list[Row] = []
    changed_s = time.time()

    async def stand_still() -> bool:
        nonlocal rows, changed_s
        now = await asyncio.to_thread(lambda: load.rows(since_s=since_s))
        if now != rows:
            rows, changed_s = now, time.time()
        is_told = await asyncio.to_thread(untold, site) == 0
        return is_told and (time.time() - changed_s > STILL_S or not any(row.is_open for row in rows))

    await until(stand_still, timeout_s=ENDS_S, every_s=1.0, what="slurmdbd to be told everything")
    return rows

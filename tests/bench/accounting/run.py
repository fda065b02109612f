"""One run: load and faults side by side, then quiet until nothing moves any more, and the judgement.

`build/reports/accounting.json` has the figures, `accounting-run.json` what was seen and all that was found,
`accounting-logs` what the daemons wrote. Needs root: the daemons change their user.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import click
import msgspec

from tests.bench import report
from tests.bench.accounting.admin import Admin
from tests.bench.accounting.faults import QUICK, Saboteur, Sizes, Tell, longest_s, plan_steps, untold
from tests.bench.accounting.judge import Excuse, Finding, Rule, counts, judge
from tests.bench.accounting.load import Load, plan_jobs
from tests.bench.accounting.record import Record, Row, Task
from tests.integration.slurm.site import POD, Site
from tests.polling import until

ENDS_S: Final = 240.0
STILL_S: Final = 12.0
"""slurmctld speaks to a slurmdbd that did not answer again after ten seconds."""
_LIMITS: Final = (
    (Rule.LOST, Excuse.UNSAVED),
    (Rule.TWICE, Excuse.UNSAVED),
    (Rule.UNRECORDED, Excuse.UNSAVED),
    (Rule.OPEN, Excuse.UNSAVED),
    (Rule.WRONG, Excuse.UNSAVED),
    (Rule.UNRECORDED, Excuse.UNTOLD),
    (Rule.OPEN, Excuse.UNTOLD),
    (Rule.WRONG, Excuse.UNTOLD),
)


_STILL_OPEN: Final = "records without an end after `sacctmgr show runawayjobs`"
_LONGER: Final = 4
"""There are jobs until the last fault, also where all takes longer."""


class Outcome(NamedTuple):
    """What a run saw, what of it must not be or is a limit of Slurm, and what an admin had to do."""

    record: Record
    findings: Sequence[Finding]
    requeued: Sequence[Task]
    resumed: Sequence[str]
    refused: Sequence[str]
    still_open: Sequence[str]


def measure(*, quick: bool, seed: int, tell: Tell = click.echo) -> list[report.Figure]:
    """Twenty kills of slurmctld and all other faults, or a few of each."""
    with tempfile.TemporaryDirectory(prefix="sunkpy-accounting-") as folder:
        site = Site(Path(folder), slurmctld=POD)
        try:
            outcome = asyncio.run(carry_out(site, seed=seed, sizes=QUICK if quick else Sizes(), tell=tell))
        finally:
            shutil.copytree(site.slurm.root / "var/log", report.REPORTS / "accounting-logs", dirs_exist_ok=True)
            site.stop()
    report.REPORTS.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(outcome), indent=2)
    (report.REPORTS / "accounting-run.json").write_bytes(text + b"\n")
    for finding in outcome.findings:
        tell(f"{finding.rule}: {finding.text} {f'({finding.excuse})' if finding.excuse else ''}".rstrip())
    return figures(outcome, seed=seed)


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
    return Outcome(record, judge(record), admin.requeued, admin.resumed, load.refused, still_open)


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


def figures(outcome: Outcome, *, seed: int) -> list[report.Figure]:
    """What must hold, the limits of Slurm that were met, and what else was seen."""
    record, tally = outcome.record, counts(outcome.findings)
    n = sum(1 for submitted in record.submitted for _ in submitted.all_tasks())
    found = [report.at_most(rule, tally[rule, Excuse.NONE], unit="", bound=0, n=n, seed=seed) for rule in Rule]
    found += [report.observed(f"{rule}: {excuse}", tally[rule, excuse], unit="", n=n) for rule, excuse in _LIMITS]
    still_open = len(outcome.still_open)
    found.append(report.at_most(_STILL_OPEN, still_open, unit="", bound=0, n=n, seed=seed))
    again = sum(not row.is_done and not row.is_open for row in record.rows)
    found.append(report.observed("records of runs that Slurm queued again", again, unit="", n=n))
    requeued, resumed = len(outcome.requeued), len(outcome.resumed)
    found.append(report.observed("jobs whose end was forgotten, queued again by hand", requeued, unit="", n=n))
    found.append(report.observed("drains for a duplicate job id, resumed by hand", resumed, unit="", n=n))
    backs = [kill.back_s - kill.at_s for kill in record.kills]
    found.append(report.observed("slurmctld killed to answering, p95", report.p95(backs), unit="s", n=len(backs)))
    return found

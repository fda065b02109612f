"""People who submit short jobs, the logs that these jobs write, and what squeue and sacct say of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.integration.slurm.faults.record import Queued, Row, Run, Submitted, Task
from tests.integration.slurm.site import PEOPLE, Site

USERS: Final = ("ann", "bob")
_SCRIPT: Final = """\
#!/bin/bash
write() {{ echo "$1 $EPOCHREALTIME $SLURM_JOB_ID $SLURMD_NODENAME/$$" >> "{log}.${{SLURM_ARRAY_TASK_ID:-0}}"; }}
write begin
sleep {lasts_s}
write end
exit {exit_code}
"""
_SBATCH: Final = """\
cd; sbatch --parsable --output=/dev/null --mem=10 --job-name={name} {options} <<'SCRIPT'
{script}SCRIPT
"""
LONGEST_S: Final = 4.0
_PATIENCE_S: Final = 90.0
_IN_SECONDS: Final = ("env", "SLURM_TIME_FORMAT=%s")
_SQUEUE: Final = (*_IN_SECONDS, "squeue", "--noheader", "--format=%A %T %j %K %i %S %r")
_FIELDS: Final = "jobidraw,jobid,jobname,state,exitcode,submit,start,end"
_JOB_ID: Final = re.compile(r"\d+(?:_(?:(?P<task>\d+)|(?P<tasks>\[.*\])))?")


class PlannedJob(msgspec.Struct, frozen=True, kw_only=True):
    """`at_s` after the start of the run somebody submits it, to begin `waits_s` later; `tasks` of an array, or 0."""

    at_s: float
    name: str
    user: str
    tasks: int
    waits_s: int
    lasts_s: float
    exit_code: int

    @property
    def options(self) -> str:
        """The options of sbatch besides the job's name and script."""
        array = f"--array=1-{self.tasks}" if self.tasks else ""
        return f"{array} --begin=now+{self.waits_s}" if self.waits_s else array


def plan_jobs(seed: int, *, until_s: float, every_s: float) -> tuple[PlannedJob, ...]:
    """Jobs at random moments, one in six an array, one in four to wait, one in five with an exit code."""
    rng = random.Random(seed)
    moments = sorted(rng.uniform(0, until_s) for _ in range(int(until_s / every_s)))
    return tuple(
        PlannedJob(
            at_s=at_s,
            name=f"j{number}",
            user=rng.choice(USERS),
            tasks=rng.choice((0, 0, 0, 0, 0, 3)),
            waits_s=rng.choice((0, 0, 0, 6)),
            lasts_s=round(rng.uniform(0.2, LONGEST_S), 1),
            exit_code=rng.choice((0, 0, 0, 0, rng.randint(1, 99))),
        )
        for number, at_s in enumerate(moments)
    )


class Load:
    """One run's jobs."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.submitted: list[Submitted] = []
        self.is_over = asyncio.Event()
        for user in USERS:
            logs = site.slurm.root / "home" / user / "logs"
            logs.mkdir()
            os.chown(logs, PEOPLE[user], PEOPLE[user])

    async def run(self, jobs: Sequence[PlannedJob], *, started_s: float) -> None:
        """Each at its time, until it is over; who has to wait for slurmctld keeps nobody else waiting."""
        async with asyncio.TaskGroup() as tasks:
            for job in jobs:
                tasks.create_task(self._submit(job, started_s))

    async def _submit(self, job: PlannedJob, started_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.is_over.wait(), max(started_s + job.at_s - time.time(), 0.0))
            return
        script = _SCRIPT.format(log=f"/home/{job.user}/logs/{job.name}", lasts_s=job.lasts_s, exit_code=job.exit_code)
        asked_s = time.time()
        try:
            code, _ = await asyncio.to_thread(
                self._site.shell,
                job.user,
                _SBATCH.format(name=job.name, options=job.options, script=script),
                timeout_s=_PATIENCE_S,
            )
        except subprocess.TimeoutExpired:
            code = 1
        self.submitted.append(
            Submitted(
                name=job.name,
                exit_code=job.exit_code,
                asked_s=asked_s,
                answered_s=time.time() if code == 0 else None,
                tasks=job.tasks,
            )
        )

    def runs(self) -> list[Run]:
        """What the jobs wrote."""
        return [run for log, task in self._logs() for run in read_runs(log.read_text(), task)]

    def _logs(self) -> Iterator[tuple[Path, Task]]:
        for user in USERS:
            for log in sorted((self._site.slurm.root / "home" / user / "logs").iterdir()):
                name, _, index = log.name.rpartition(".")
                yield log, Task(name, int(index))

    def rows(self, *, since_s: float) -> list[Row]:
        """What slurmdbd has."""
        window = (f"--starttime=uts{int(since_s)}", "--endtime=now")
        how = ("--allusers", "--duplicates", "--allocations", "--noheader", "--parsable2", f"--format={_FIELDS}")
        code, said = self._site.slurm.run_as("slurm", *_IN_SECONDS, "sacct", *how, *window)
        if code != 0:
            raise RuntimeError(f"sacct: {said}")
        return [read_row(line) for line in said.splitlines()]

    def queue(self) -> list[Queued] | None:
        """What slurmctld has that is not over; None when it does not say."""
        code, said = self._site.slurm.run_as("slurm", *_SQUEUE)
        return [read_queued(line) for line in said.splitlines()] if code == 0 else None


def read_runs(log: str, task: Task) -> list[Run]:
    """A log has `begin <time> <job> <node>/<pid>`, and `end` with the same when it got so far, of each run."""
    begun: dict[str, Run] = {}
    for line in log.splitlines():
        what, at_s, job, process = line.split()
        if what == "begin":
            begun[process] = Run(task=task, job=int(job), begin_s=float(at_s))
        else:
            begun[process] = msgspec.structs.replace(begun[process], end_s=float(at_s))
    return list(begun.values())


def read_queued(line: str) -> Queued:
    """A line of squeue with the format of `_SQUEUE`. What is no task of an array has `N/A` for its index."""
    job, state, name, index, shown, start, reason = line.split(maxsplit=6)
    task = Task(name, int(index) if index.isdigit() else 0)
    return Queued(job=int(job), task=task, shown=shown, state=state, start_s=_seconds(start), reason=reason)


def read_row(line: str) -> Row:
    """A line of sacct with `_FIELDS`. `7_[2-3]` stands for tasks that have not begun, `CANCELLED by 401` for CANCELLED.

    A time that is not there is `Unknown` or `None`.
    """
    raw, job_id, name, state, exit_code, queued, start, end = line.split("|")
    found = _JOB_ID.fullmatch(job_id)
    if found is None:
        raise ValueError(f"no id of a job: {line!r}")
    index = -1 if found["tasks"] else int(found["task"] or 0)
    return Row(
        task=Task(name, index),
        job=int(raw.partition("_")[0]),
        state=state.split()[0],
        exit_code=int(exit_code.partition(":")[0]),
        queued_s=_seconds(queued),
        start_s=_seconds(start),
        end_s=_seconds(end),
    )


def _seconds(text: str) -> float | None:
    return float(text) if text.isdigit() else None

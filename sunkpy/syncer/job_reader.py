"""Reads all jobs of Slurm one by one as they change, so that slurmrestd never has to list all of them in full.

A full list takes a quarter of a MiB of slurmrestd's memory for each job. The list of states is small, and says which
jobs are new, have changed or are gone. New and changed jobs are read in full, up to a maximum each time. What is left
of the maximum goes to pending jobs, whose reasons change, and to job arrays, whose states are reported for all tasks
together: first those that were not read for the longest time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice

import msgspec

from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.model.states import JobId, is_job_pending
from sunkpy.runtime.fan_out import fan_out
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import NotFound

_AT_ONCE = 4
"""The most jobs that are read at a time, so that slurmrestd answers other requests meanwhile."""

States = frozenset[str]


class Known(msgspec.Struct, frozen=True, gc=False):
    """A job as last read, with all tasks if it is an array. Python's garbage collection leaves it out, because there
    may be tens of thousands.
    """

    states: States
    rows: Sequence[JobRow]


class JobReader:
    """Keeps all jobs of Slurm as rows for the metrics. `most`: the most jobs that one `refresh` reads in full.

    `scheduler_user`: the Slurm user of the scheduler. `with_waits` returns whether rows of pending jobs must say what
    these request of nodes.
    """

    def __init__(
        self, slurm: Slurm, *, scheduler_user: str, most: int, with_waits: Callable[[], bool] = lambda: True
    ) -> None:
        self._slurm = slurm
        self._user = scheduler_user
        self._most = most
        self._with_waits = with_waits
        self._known: dict[JobId, Known] = {}
        self._is_whole = False
        self.unread = 0

    async def refresh(self) -> list[JobRow] | None:
        """Read new and changed jobs, and return all jobs; None until all have been read once. New jobs above `most` are
        missing, and counted in `unread`.

        Raises:
            SlurmError: a job could not be read; earlier reads are kept.
        """
        states = await self._slurm.jobs_state()
        due = await asyncio.to_thread(self._plan, states)
        for start in range(0, len(due), _AT_ONCE):
            await fan_out(partial(self._read, job, states[job]) for job in due[start : start + _AT_ONCE])
        self.unread = len(states) - len(self._known)
        self._is_whole = self._is_whole or not self.unread
        return await asyncio.to_thread(self._rows, states) if self._is_whole else None

    def _rows(self, states: Mapping[JobId, States]) -> list[JobRow]:
        """Return the row of each job as last read, and only once: Slurm shows a started task both by itself and in its
        job array.

        If a job's state has changed since it was read, it may have nodes by now. So its row then does not ask for
        nodes.
        """
        found: dict[int, JobRow] = {}
        for job, known in self._known.items():
            is_old = known.states != states.get(job)
            for row in known.rows:
                found[row.id] = msgspec.structs.replace(row, waits=None) if is_old and row.waits is not None else row
        return list(found.values())

    def _plan(self, states: dict[JobId, States]) -> list[JobId]:
        """Forget jobs that are gone, and return the jobs to read now, at most `most`."""
        for gone in [job for job in self._known if job not in states]:
            del self._known[gone]
        return list(islice(self._due(states), self._most))

    def _due(self, states: dict[JobId, States]) -> Iterable[JobId]:
        """Yield the jobs with another state than when they were read, then pending jobs and arrays, which may change
        while their state stays the same: first those not read for the longest time (the order of `_known`).
        """
        changed = {job for job, now in states.items() if self._has_changed(job, now)}
        yield from changed
        for job, known in self._known.items():
            if job not in changed and (is_job_pending(known.states) or len(known.rows) > 1):
                yield job

    def _has_changed(self, job: JobId, now: States) -> bool:
        known = self._known.get(job)
        return known is None or known.states != now

    async def _read(self, job: JobId, states: States) -> None:
        self._known.pop(job, None)
        try:
            rows = await self._slurm.job_rows(job, scheduler=self._user, with_waits=self._with_waits())
            self._known[job] = Known(states, rows)
        except NotFound:
            self._known[job] = Known(states, ())

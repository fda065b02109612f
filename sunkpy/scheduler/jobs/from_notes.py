"""Asks Slurm for the jobs that are noted on pods, one by one: a few at a time, and first those that somebody waits for.

What counts is what the job says of itself: anybody who may edit a pod can note another's job there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from typing import Final

import structlog

from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.runtime.queue import QueueMetrics, Urgency, WorkQueue, run_workers
from sunkpy.scheduler.jobs.search import JobSearch
from sunkpy.slurm.errors import NotFound, SlurmError

AGAIN_S: Final = 1.0
NOBODY: Final = GangId(namespace="", name="", uid="")
"""Whose a job is that is no gang's."""

_WORKERS: Final = 8
_ONLY_HURRIED: Final = 4

Learned = Callable[[JobId, SlurmJob | None, float], None]
"""Called with a noted job as it is, None when Slurm does not know it, and when (monotonic) it was asked for."""


class JobsFromNotes:
    """`learned` hears of each job that was asked for, when it is known whose it is."""

    def __init__(self, search: JobSearch, *, learned: Learned, clock: Callable[[], float]) -> None:
        self._search = search
        self._learned = learned
        self._clock = clock
        self._queue: WorkQueue[JobId] = WorkQueue("noted-jobs", urgency=self._urgency)
        self._hurried: set[JobId] = set()
        self._untried: set[JobId] = set()
        self._all_tried = asyncio.Event()
        self._log = structlog.get_logger("leader")
        self.whose: dict[JobId, GangId | None] = {}
        """Of the jobs that were asked for; None: Slurm does not know it."""

    def ask_about(self, job: JobId) -> None:
        """Find out whose a job is, or how it is now."""
        self._untried.add(job)
        self._all_tried.clear()
        self._queue.add(job)

    def hurry(self, job: JobId) -> None:
        """As `ask_about`, for somebody who waits for the answer."""
        if job not in self._hurried:
            self._hurried.add(job)
            self.ask_about(job)

    def _urgency(self, job: JobId) -> Urgency:
        return Urgency.FIRST if job in self._hurried else Urgency.NONE

    def keep_only(self, noted: Container[JobId]) -> None:
        """These are the jobs that are noted on pods: of the others nobody needs to know any more whose they are."""
        self.whose = {job: id for job, id in self.whose.items() if job in noted}
        self._hurried = {job for job in self._hurried if job in noted}

    async def until_all_tried(self) -> None:
        """Return when each job was asked for once, whether or not Slurm answered."""
        if self._untried:
            await self._all_tried.wait()

    async def run(self, metrics: QueueMetrics) -> None:
        """Ask until cancelled."""
        await run_workers(self._queue, self._look_at, workers=_WORKERS, only_urgent=_ONLY_HURRIED, metrics=metrics)

    async def _look_at(self, id: JobId) -> float | None:
        """Ask whose a job is; when to ask again."""
        asked_at = self._clock()
        try:
            job, gang = await self._search.read(id)
            self.whose[id] = gang or NOBODY
        except NotFound:
            job, self.whose[id] = None, None
        except SlurmError as error:  # nothing may follow for its pods; the others do not wait for it
            self._log.debug("job not read", job=id, error=str(error))
            return AGAIN_S
        finally:
            self._untried.discard(id)
            if not self._untried:
                self._all_tried.set()
        self._learned(id, job, asked_at)
        return None

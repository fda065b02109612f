"""Whose the jobs are that are noted on pods, asked of Slurm one by one: a few at a time, and first those that somebody
waits for.

The note proves nothing, for anybody who may edit a pod can write another job's id there. What counts is what the job
says of itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable
from typing import Final

import structlog

from sunkpy.core import names
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.runtime.queue import QueueMetrics, Urgency, WorkQueue, run_workers
from sunkpy.scheduler.job_search import JobSearch
from sunkpy.slurm.errors import NotFound, SlurmError, UnreadableJob

AGAIN_S: Final = 1.0
NOBODY: Final = GangId(namespace="", name="", uid="")
"""Whose a job is that is no gang's."""

_WORKERS: Final = 8
_ONLY_HURRIED: Final = 4
_DIGITS: Final = 10
_A_TURN: Final = 250
_NO_JOB: Final = 2**31
"""Slurm counts to 2**26. Above this, slurmrestd takes some numbers for no number at all (slurm.h, NO_VAL)."""

Told = Callable[[SlurmJob, GangId | None, float], None]
"""Called with a noted job as it is, its gang, and when (monotonic) it was asked for."""


class NotedJobs:
    """`told` hears of each job that Slurm knows, then `looked_at` of each gang on whose pods one was noted."""

    def __init__(
        self, search: JobSearch, *, told: Told, looked_at: Callable[[GangId], None], clock: Callable[[], float]
    ) -> None:
        self._search = search
        self._told = told
        self._looked_at = looked_at
        self._clock = clock
        self._queue: WorkQueue[JobId] = WorkQueue("noted-jobs", urgency=self._urgency)
        self._hurried: set[JobId] = set()
        self._gangs: dict[JobId, set[GangId]] = {}
        self._untried: set[JobId] = set()
        self._all_tried = asyncio.Event()
        self._is_away = False
        self._log = structlog.get_logger("leader")
        self.whose: dict[JobId, GangId | None] = {}
        """Of the jobs that were asked for; None: Slurm does not know it."""

    def ask_about(self, job: JobId, id: GangId | None = None) -> None:
        """Find out whose a job is that is noted on a pod of this gang."""
        if id is not None:
            self._gangs.setdefault(job, set()).add(id)
        self._untried.add(job)
        self._all_tried.clear()
        self._queue.add(job)

    def hurry(self, job: JobId, id: GangId) -> None:
        """As `ask_about`, for somebody who waits for the answer."""
        if job not in self._hurried:
            self._hurried.add(job)
            self.ask_about(job, id)

    def _urgency(self, job: JobId) -> Urgency:
        return Urgency.FIRST if job in self._hurried else Urgency.NONE

    def is_of_others(self, job: JobId, id: GangId) -> bool:
        """It is being asked for because of pods that are of another gang by what they say now."""
        return not self._gangs.get(job, set()) <= {id}

    def keep_only(self, noted: Container[JobId]) -> None:
        """These are the jobs that are noted on pods; whose the others are, nobody needs to know once all are known."""
        self.whose = {job: id for job, id in self.whose.items() if job in noted}
        self._hurried = {job for job in self._hurried if job in noted}

    async def until_all_tried(self) -> None:
        """Return when each job was asked for once, whether or not Slurm answered."""
        if self._untried:
            await self._all_tried.wait()

    async def run(self, metrics: QueueMetrics) -> None:
        """Ask until cancelled."""
        await run_workers(self._queue, self._look_at, workers=_WORKERS, only_urgent=_ONLY_HURRIED, metrics=metrics)

    async def _look_at(self, job_id: JobId) -> float | None:
        """Ask whose a job is; when to ask again."""
        asked_at = self._clock()
        try:
            self._note(await self._search.read(job_id), asked_at)
        except NotFound:
            self.whose[job_id] = None
        except UnreadableJob:
            return AGAIN_S  # nothing may follow for its pods; the others do not wait for it
        except SlurmError as error:
            self._failed(error)
            return AGAIN_S
        finally:
            self._tried(job_id)
        self._is_away = False
        for id in self._gangs.pop(job_id, ()):
            self._looked_at(id)
        return None

    def _note(self, read: tuple[SlurmJob, GangId | None], asked_at: float) -> None:
        job, id = read
        self.whose[job.id] = id or NOBODY
        self._told(job, id, asked_at)

    def _tried(self, job: JobId) -> None:
        self._untried.discard(job)
        if not self._untried:
            self._all_tried.set()

    def _failed(self, error: SlurmError) -> None:
        if not self._is_away:
            self._log.warning("jobs cannot be read: what an earlier leader left is taken over later", error=str(error))
        self._is_away = True


async def noted_jobs(pods: Iterable[Pod]) -> set[JobId]:
    """All that are noted on pods; a part of all at a time, for others have a turn as well."""
    noted: set[JobId] = set()
    for number, pod in enumerate(tuple(pods)):
        if (job := noted_job(pod)) is not None:
            noted.add(job)
        if number % _A_TURN == 0:
            await asyncio.sleep(0)
    return noted


def noted_job(pod: Pod) -> JobId | None:
    """The job that is noted on a pod, whoever has written that."""
    text = pod.annotations.get(names.ANNOTATION_JOB_ID, "")
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return JobId(int(text)) if is_number and int(text) < _NO_JOB else None

"""Which jobs are to be read in full, kept as they change, so that no poll walks over all.

A job is filed by when it is due; one that is due waits in its lane, behind those that were read longer ago. Whatever
changes about a job files it anew, and what was filed of it before counts no more.
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from typing import Final

from sunkpy.core.gang.job.job import WAITS_FOR_PROLOG, Job
from sunkpy.core.model.states import JobId

_FIRST_REASON_S: Final = 2.0
_REASON_EACH_S: Final = 5.0
_LONGEST_REASON_S: Final = 30.0
_A_TURN: Final = 250

_Filed = tuple[float, int, Job]
"""By what it is sorted, its number, and the job. It counts while the job has this number."""


class DueJobs:
    """Of all gangs."""

    def __init__(self) -> None:
        self._numbers: dict[JobId, int] = {}
        self._later: list[_Filed] = []
        self._started: list[_Filed] = []
        self._waiting: list[_Filed] = []
        self._number = 0
        self._steps = 0

    def file(self, job: Job) -> None:
        """The job is new, or something about it has changed."""
        self._number += 1
        self._numbers[job.id] = self._number
        if (due_at := details_due_at(job)) is not None:
            heappush(self._later, (due_at, self._number, job))

    def forget(self, job: JobId) -> None:
        """It is nobody's any more."""
        self._numbers.pop(job, None)
        if not self._numbers:  # no poll comes that would throw them away
            self._later, self._started, self._waiting = [], [], []

    async def take(self, now: float, *, started: int, waiting: int) -> list[Job]:
        """The jobs to read: those that have started, for pods wait to hear where; then why others wait.

        At most so many of each, those first that were read longest ago. They stay due until they are filed anew.
        """
        while self._later and self._later[0][0] <= now:
            _, number, job = heappop(self._later)
            if self._numbers.get(job.id) == number:
                heappush(self._started if job.has_started else self._waiting, (job.read_at, number, job))
            await self._step()
        return await self._first(self._started, started) + await self._first(self._waiting, waiting)

    async def _first(self, lane: list[_Filed], limit: int) -> list[Job]:
        taken: list[_Filed] = []
        try:
            while lane and len(taken) < limit:
                filed = heappop(lane)
                _, number, job = filed
                if self._numbers.get(job.id) == number:
                    taken.append(filed)
                await self._step()
        finally:
            for filed in taken:
                heappush(lane, filed)
        return [job for _, _, job in taken]

    async def _step(self) -> None:
        self._steps += 1
        if self._steps % _A_TURN == 0:
            await asyncio.sleep(0)


def details_due_at(job: Job) -> float | None:
    """When to read it: why it waits, now and then; where it runs, when not all prologs have told. None: not before it
    changes.
    """
    if job.is_anothers:
        return None
    if "PENDING" in job.state:
        # The longer it has waited, the less news: each half as long again as it has waited then.
        pause_s = min(max((job.read_at - job.known_at) / 2, _REASON_EACH_S), _LONGEST_REASON_S)
        return max(job.known_at + _FIRST_REASON_S, job.read_at + pause_s)
    if "RUNNING" not in job.state or (job.nodes and job.prologs.keys() | job.epilogs.keys() >= set(job.nodes)):
        return None
    if not job.nodes:
        return float("-inf")
    return job.read_at + _REASON_EACH_S if job.slurm.state_reason == WAITS_FOR_PROLOG else None

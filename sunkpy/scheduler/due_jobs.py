"""Which jobs are to be read in full, kept as they change, so that no poll walks over all.

A job is filed by when it is due; one that is due waits in its lane, behind those that were read longer ago. Whatever
changes that about a job files it anew, and what was filed of it before counts no more. Hooks alone do not tell: a job
whose prologs have told since is seen when its turn comes, and changes lanes or leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from sunkpy.core.gang.view import WAITS_FOR_PROLOG
from sunkpy.scheduler.entries import GangEntry, JobEntry

_FIRST_REASON_S: Final = 2.0
_REASON_EACH_S: Final = 5.0
_A_TURN: Final = 250

_Filed = tuple[float, int, JobEntry]
"""By what it is sorted, its number, and the job. It counts while the job has this number."""


class DueJobs:
    """`gang_of`: the gang of a job; None when it is forgotten."""

    def __init__(self, gang_of: Callable[[JobEntry], GangEntry | None]) -> None:
        self._gang_of = gang_of
        self._later: list[_Filed] = []
        self._started: list[_Filed] = []
        self._waiting: list[_Filed] = []
        self._number = 0
        self._steps = 0

    def file(self, job: JobEntry) -> None:
        """The job is new, or something about it has changed."""
        self._number += 1
        job.filed = self._number
        if (due_at := details_due_at(job)) is not None:
            heappush(self._later, (due_at, self._number, job))

    async def take(self, now: float, *, started: int, waiting: int) -> list[tuple[GangEntry, JobEntry]]:
        """The jobs to read: those that have started, for pods wait to hear where; then why others wait.

        At most so many of each, those first that were read longest ago. They stay due until they are filed anew.
        """
        await self._wake(now)
        those_waiting = await self._first(self._waiting, waiting, now)  # those that have started meanwhile change lanes
        return await self._first(self._started, started, now) + those_waiting

    async def _wake(self, now: float) -> None:
        """Those that are due now go to their lanes."""
        while self._later and self._later[0][0] <= now:
            _, number, job = heappop(self._later)
            if job.filed == number:
                heappush(self._lane(job), (job.read_at, number, job))
            await self._step()

    async def _first(self, lane: list[_Filed], limit: int, now: float) -> list[tuple[GangEntry, JobEntry]]:
        taken: list[_Filed] = []
        found: list[tuple[GangEntry, JobEntry]] = []
        try:
            while lane and len(found) < limit:
                filed = heappop(lane)
                _, number, job = filed
                entry = self._gang_of(job)
                if job.filed == number and entry is not None:
                    if self._lane(job) is lane and details_due_at(job) is not None:
                        taken.append(filed)
                        found.append((entry, job))
                    else:
                        self.file(job)
                        await self._wake(now)
                await self._step()
        finally:
            for filed in taken:
                heappush(lane, filed)
        return found

    def _lane(self, job: JobEntry) -> list[_Filed]:
        return self._started if job.has_started else self._waiting

    async def _step(self) -> None:
        self._steps += 1
        if self._steps % _A_TURN == 0:
            await asyncio.sleep(0)


def details_due_at(job: JobEntry) -> float | None:
    """When to read it: why it waits, now and then; where it runs, when not all prologs have told; whose it is, when it
    came back or is to lose its nodes. None: not before it changes.
    """
    if job.is_doubted:
        return float("-inf")
    if job.reappeared:
        return job.read_at + _REASON_EACH_S
    if "PENDING" in job.state:
        return max(job.known_at + _FIRST_REASON_S, job.read_at + _REASON_EACH_S)
    if "RUNNING" not in job.state or (job.nodes and job.prologs.keys() >= set(job.nodes)):
        return None
    if not job.nodes:
        return float("-inf")
    return job.read_at + _REASON_EACH_S if job.reason == WAITS_FOR_PROLOG else None

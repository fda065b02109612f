"""Finds the jobs that stand for gangs and that nobody here knows: an earlier leader left them, or a submit whose answer
was lost made them.

Slurm is asked for the states of all jobs, and then for those that have not ended by themselves, a few at a time: 50,000
jobs in one answer are 250 MB, come after the time for which an answer is waited for, and slurmrestd offers no part of
them. Which jobs are nobody's is remembered, so that they are read once, however often is searched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from sunkpy.core.gang.identity import GangId, gang_of
from sunkpy.core.model.states import JobId, SlurmJob, holds_something
from sunkpy.runtime.fresh_answer import FreshAnswer
from sunkpy.runtime.turns import in_turns
from sunkpy.scheduler.ledger import Ledger
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import NotFound, UnreadableJob

_AT_ONCE = 8


class JobSearch:
    """One search serves all who ask about the same time. `user` is the scheduler's own Slurm user."""

    def __init__(self, slurm: Slurm, *, user: str, ledger: Ledger, clock: Callable[[], float]) -> None:
        self._slurm = slurm
        self._user = user
        self._ledger = ledger
        self._clock = clock
        self._search = FreshAnswer(self._find_all, clock=clock)
        self._nobodys: set[JobId] = set()

    async def all(self, *, sent_after: float) -> Mapping[GangId, list[SlurmJob]]:
        """All jobs by their gang that hold something, or may come to, and that the ledger does not know, in a search
        that began after that moment (monotonic).

        Raises:
            SlurmError: Slurm could not be read: nothing is known. What was read counts when it is tried again.
        """
        found, _ = await self._search.get(sent_after=sent_after)
        return found

    async def read(self, id: JobId) -> tuple[SlurmJob, GangId | None]:
        """A job as it is now, and whose it is by what it says of itself; None: no gang's.

        Raises:
            NotFound: Slurm does not know it.
            SlurmError: it could not be read.
        """
        job = await self._slurm.job(id)
        return job, gang_of(job, scheduler=self._user)

    async def look_at(self, id: JobId) -> SlurmJob:
        """A job as it is now, also where it cannot be read where it is.

        Raises:
            SlurmError: as in `read`.
        """
        try:
            return await self._slurm.job(id)
        except UnreadableJob as error:
            return error.job

    async def _find_all(self) -> dict[GangId, list[SlurmJob]]:
        states = await self._slurm.jobs_state()
        self._nobodys &= states.keys()
        found: dict[GangId, list[SlurmJob]] = {}
        left = iter(await self._unknown(states))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_AT_ONCE):
                    group.create_task(self._look_at_each(left, found))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return found

    async def _unknown(self, states: Mapping[JobId, frozenset[str]]) -> list[JobId]:
        """The jobs to look at."""
        unknown = []
        async for id, state in in_turns(states.items()):
            if holds_something(state) and id not in self._nobodys and self._ledger.by_job(id) is None:
                unknown.append(id)
        return unknown

    async def _look_at_each(self, left: Iterator[JobId], found: dict[GangId, list[SlurmJob]]) -> None:
        for id in left:
            if self._ledger.by_job(id) is not None:
                continue
            try:
                job = await self.look_at(id)
            except NotFound:
                continue
            if (gang := gang_of(job, scheduler=self._user)) is None:
                self._nobodys.add(id)
            else:
                found.setdefault(gang, []).append(job)

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
from sunkpy.scheduler.ledger import Ledger
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import NotFound, UnreadableJob

_AT_ONCE = 8
_A_TURN = 250
_FORGETS_S = 30.0
"""What it was told in its last seconds is forgotten by a slurmctld that is killed; and how late that may be noticed."""


class JobSearch:
    """One search serves all who ask about the same time. `user` is the scheduler's own Slurm user."""

    def __init__(self, slurm: Slurm, *, user: str, ledger: Ledger, clock: Callable[[], float]) -> None:
        self._slurm = slurm
        self._user = user
        self._ledger = ledger
        self._clock = clock
        self._lock = asyncio.Lock()
        self._searched_at = float("-inf")
        self._found: dict[GangId, list[SlurmJob]] = {}
        self._nobodys: dict[JobId, float] = {}
        self._highest = 0

    async def find(self, id: GangId, *, sent_after: float) -> list[SlurmJob]:
        """The jobs of a gang that nobody knows, in a search that began after that moment (monotonic).

        Raises:
            SlurmError: Slurm could not be read: nothing is known.
        """
        return (await self.all(sent_after=sent_after)).get(id, [])

    async def all(self, *, sent_after: float) -> Mapping[GangId, list[SlurmJob]]:
        """All jobs by their gang that hold something, or may come to, and that the ledger does not know.

        Raises:
            SlurmError: as above; what was read counts when it is tried again.
        """
        async with self._lock:
            if self._searched_at <= sent_after:
                began_at = self._clock()
                self._found = await self._search()
                self._searched_at = began_at
            return self._found

    async def read(self, id: JobId) -> tuple[SlurmJob, GangId | None]:
        """A job as it is now, and whose it is by what it says of itself; None: no gang's.

        Raises:
            NotFound: Slurm does not know it.
            SlurmError: it could not be read.
        """
        job = await self._slurm.job(id)
        return job, gang_of(job, scheduler=self._user)

    def slurm_was_away(self, *, since: float) -> None:
        """It did not answer from then on (monotonic): the numbers of its last jobs may be those of others now."""
        until = since - _FORGETS_S
        self._nobodys = {id: at for id, at in self._nobodys.items() if at <= until}

    async def _search(self) -> dict[GangId, list[SlurmJob]]:
        states = await self._slurm.jobs_state()
        self._forget_numbers(states)
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
        """The jobs to look at; a part of all at a time, for others have a turn as well."""
        unknown = []
        for number, (id, state) in enumerate(states.items()):
            if holds_something(state) and id not in self._nobodys and self._ledger.by_job(id) is None:
                unknown.append(id)
            if number % _A_TURN == 0:
                await asyncio.sleep(0)
        return unknown

    async def _look_at_each(self, left: Iterator[JobId], found: dict[GangId, list[SlurmJob]]) -> None:
        for id in left:
            if self._ledger.by_job(id) is not None:
                continue
            try:
                job, gang = await self.read(id)
            except NotFound:
                continue
            except UnreadableJob as error:
                # Whose it is it says all the same, and its gang needs no second one.
                job, gang = error.job, gang_of(error.job, scheduler=self._user)
            if gang is None:
                self._nobodys[id] = self._clock()
            else:
                found.setdefault(gang, []).append(job)

    def _forget_numbers(self, states: Mapping[JobId, frozenset[str]]) -> None:
        """Of jobs that Slurm has forgotten, and all of them when it may have begun to count anew."""
        highest = max(states, default=0)
        is_anew = highest < self._highest
        self._nobodys = {} if is_anew else {id: at for id, at in self._nobodys.items() if id in states}
        self._highest = highest

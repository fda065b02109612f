"""Finds jobs by the gang that they stand for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from sunkpy.core.gang.identity import GangId, gang_of
from sunkpy.core.model.states import SlurmJob
from sunkpy.slurm import Slurm


class JobSearch:
    """One full read serves all who ask about the same time. `user` is the scheduler's own Slurm user."""

    def __init__(self, slurm: Slurm, *, user: str, clock: Callable[[], float]) -> None:
        self._slurm = slurm
        self._user = user
        self._clock = clock
        self._lock = asyncio.Lock()
        self._read_at = float("-inf")
        self._jobs: dict[GangId, list[SlurmJob]] = {}

    async def find(self, id: GangId, *, sent_after: float) -> list[SlurmJob]:
        """The jobs of a gang in a reading that was sent after that moment (monotonic).

        Raises:
            SlurmError: Slurm could not be read: nothing is known.
        """
        return (await self.all(sent_after=sent_after)).get(id, [])

    async def all(self, *, sent_after: float) -> dict[GangId, list[SlurmJob]]:
        """All jobs of ours by their gang."""
        async with self._lock:
            if self._read_at <= sent_after:
                sent_at = self._clock()
                self._jobs = self._by_gang(await self._slurm.jobs())
                self._read_at = sent_at
            return self._jobs

    def _by_gang(self, jobs: Iterable[SlurmJob]) -> dict[GangId, list[SlurmJob]]:
        found: dict[GangId, list[SlurmJob]] = {}
        for job in jobs:
            gang = gang_of(job, scheduler=self._user)
            if gang is not None:
                found.setdefault(gang, []).append(job)
        return found

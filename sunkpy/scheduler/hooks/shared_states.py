"""The states of jobs, for many callers that ask at about the same time: one question to Slurm serves all."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence, Set

from sunkpy.core.model.states import JobId, JobStates
from sunkpy.runtime.fresh_answer import FreshAnswer

MOST_IDS = 500
"""For more jobs than these the request would get too long: then the states of all jobs are read."""


class SharedStates:
    """`ask` is sent ids, or none for all jobs; `clock` is monotonic, in seconds."""

    def __init__(
        self, ask: Callable[[Sequence[JobId]], Awaitable[JobStates]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask
        self._wanted: list[Set[JobId]] = []
        self._reads = FreshAnswer(self._ask_for_all, clock=clock)

    async def get(self, jobs: Set[JobId]) -> tuple[dict[JobId, frozenset[str]], float]:
        """The states of those of these jobs that Slurm knows, as it said after this call, and when it was asked.

        Raises:
            SlurmError: Slurm could not be asked.
        """
        self._wanted.append(jobs)
        try:
            answer, asked_at = await self._reads.get()
        finally:
            self._wanted.remove(jobs)
        return {job: answer[job] for job in jobs if job in answer}, asked_at

    async def _ask_for_all(self) -> JobStates:
        """Ask for the jobs of all callers that wait. A caller that came too late for this answer, or whose question was
        cancelled, asks again.
        """
        wanted = sorted(set[JobId]().union(*self._wanted))
        return await self._ask(wanted if len(wanted) <= MOST_IDS else ())

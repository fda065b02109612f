"""Reads of one job, shared by all who ask at the same time: hooks of a gang call from each of its nodes at once.

Whoever asks gets an answer to a question that was sent after that, and no older one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import SlurmError


@dataclass(eq=False)
class _Read:
    """Of one job, as long as somebody waits for it; `answer` is to what was asked at `asked_at`."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    asked_at: float = float("-inf")
    answer: SlurmJob | SlurmError | None = None


class SharedReads:
    """`clock` is monotonic, in seconds."""

    def __init__(self, slurm: Slurm, *, clock: Callable[[], float]) -> None:
        self._slurm = slurm
        self._clock = clock
        self._reads: WeakValueDictionary[JobId, _Read] = WeakValueDictionary()

    async def job(self, id: JobId) -> tuple[SlurmJob, float]:
        """A job in full, and when it was asked for.

        Raises:
            SlurmError: as `Slurm.job`.
        """
        came_at = self._clock()
        read = self._reads.setdefault(id, _Read())
        async with read.lock:
            if read.answer is None or read.asked_at < came_at:
                asked_at = self._clock()
                answer = await self._ask(id)
                # Together: whoever is cancelled while asking leaves no older answer under this time.
                read.asked_at, read.answer = asked_at, answer
            asked_at, answer = read.asked_at, read.answer
        if isinstance(answer, SlurmError):
            raise answer
        return answer, asked_at

    async def _ask(self, id: JobId) -> SlurmJob | SlurmError:
        try:
            return await self._slurm.job(id)
        except SlurmError as error:
            return error

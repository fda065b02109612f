"""Which jobs have to be read in full, and which wait for a poll at all. It is kept so that no poll walks
over all jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from sunkpy.core.gang.job.job import WAITS_FOR_PROLOG, Job
from sunkpy.core.gang.job.phases import JobPhase
from sunkpy.core.model.states import JobId

_FIRST_REASON_S: Final = 2.0
_REASON_EACH_S: Final = 5.0
_LONGEST_REASON_S: Final = 30.0
_MOST_LOOKED_AT: Final = 1000
_NEVER: Final = float("-inf")

_Lane = OrderedDict[JobId, Job]


class DueJobs:
    """The jobs of all gangs that are to be read. Those that were never read come first, the oldest of them before."""

    def __init__(self) -> None:
        self._started: tuple[_Lane, _Lane] = (OrderedDict(), OrderedDict())
        self._waiting: tuple[_Lane, _Lane] = (OrderedDict(), OrderedDict())
        self._changing: set[JobId] = set()
        self._is_hurried = False
        self._changes = asyncio.Event()

    def file(self, job: Job) -> None:
        """The job is new, or something about it has changed."""
        lanes = self._started if job.has_started else self._waiting
        lane = lanes[job.read_at != _NEVER] if details_due_at(job) is not None else None
        if lane is None or job.read_at != _NEVER or job.id not in lane:  # else it keeps its place
            self._take_out(job.id)
        if lane is not None:
            lane[job.id] = job
        if waits_for_poll(job):
            self._changing.add(job.id)
            self._changes.set()
        else:
            self._settle(job.id)

    def forget(self, job: JobId) -> None:
        """Forget a job that belongs to no gang any more."""
        self._take_out(job)
        self._settle(job)

    def take(self, now: float, *, started: int, waiting: int) -> list[Job]:
        """The jobs to read: first those that have started, because pods wait to know where; then the others, to know
        why they wait.

        At most that many of each kind, those first that were read longest ago. They stay due until they are filed
        again.
        """
        return [*islice(_due(self._started, now), started), *islice(_due(self._waiting, now), waiting)]

    async def wait_for_poll(self, *, within_s: float) -> None:
        """Return when some job waits for a poll, or after `within_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._changes.wait()
        self._is_hurried = False
        self._rest()

    def hurry(self) -> None:
        """Let the next poll come at once, because the state that it shows will soon be over."""
        self._is_hurried = True
        self._changes.set()

    def _take_out(self, job: JobId) -> None:
        for lane in (*self._started, *self._waiting):
            lane.pop(job, None)

    def _settle(self, job: JobId) -> None:
        self._changing.discard(job)
        self._rest()

    def _rest(self) -> None:
        if not self._changing and not self._is_hurried:
            self._changes.clear()


def _due(lanes: tuple[_Lane, _Lane], now: float) -> Iterator[Job]:
    for job in chain.from_iterable(islice(lane.values(), _MOST_LOOKED_AT) for lane in lanes):
        if (due_at := details_due_at(job)) is not None and due_at <= now:
            yield job


def waits_for_poll(job: Job) -> bool:
    """True if only a poll can show what happens to the job next.

    A prolog will report where a queued job begins, and epilogs report the end of a job that has begun on all its nodes.
    """
    if job.is_anothers:
        return False
    if job.missing or (job.cancelled_at is not None and not job.has_started):
        return True
    if job.phase is JobPhase.RUNNING:
        return not job.nodes or not job.prologs.keys() >= set(job.nodes)
    return job.phase not in (JobPhase.SUBMITTED, JobPhase.PENDING)


def details_due_at(job: Job) -> float | None:
    """When to read the job in full: if it waits, now and then, for the reason; if it runs and not all prologs have
    called, for its nodes. None: not before it changes.
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

"""Keeps two lists of jobs up to date whenever a job changes: the jobs that have to be read with all details, and those
whose next change only a poll can show. So a poll does not have to look at all jobs.
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
    """The jobs of gangs that have to be read from Slurm with all details. Jobs that were never read come first, then
    the jobs that were read longest ago.
    """

    def __init__(self) -> None:
        self._started: tuple[_Lane, _Lane] = (OrderedDict(), OrderedDict())
        self._waiting: tuple[_Lane, _Lane] = (OrderedDict(), OrderedDict())
        self._changing: set[JobId] = set()
        self._is_hurried = False
        self._changes = asyncio.Event()

    def file(self, job: Job) -> None:
        """Put a job that is new or has changed into the right lists: when its details have to be read, and whether it
        waits for a poll.
        """
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
        """Forget a job that no longer belongs to a gang."""
        self._take_out(job)
        self._settle(job)

    def take(self, now: float, *, started: int, waiting: int) -> list[Job]:
        """Return the jobs whose details have to be read now: first at most `started` jobs that have started, because
        their pods need to know the nodes of the job; then at most `waiting` pending jobs, to learn why they wait.

        In each of the two groups, jobs that were never read come first, then those read longest ago. A job is returned
        again until `file` has been called for it.
        """
        return [*islice(_due(self._started, now), started), *islice(_due(self._waiting, now), waiting)]

    async def wait_for_poll(self, *, within_s: float) -> None:
        """Return as soon as there is a job whose next change only a poll can show, or a poll is wanted at once
        (`hurry`). Return after `within_s` seconds at the latest.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._changes.wait()
        self._is_hurried = False
        self._rest()

    def hurry(self) -> None:
        """Let the next poll come at once, because the jobs will soon have left the states that this poll is to show."""
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
    """True if only a poll can show what happens to the job next, and no Prolog or Epilog reports it.

    Prologs report that a queued job begins. If a job has begun on all its nodes, Epilogs report its end.
    """
    if job.is_anothers:
        return False
    if job.missing or (job.cancelled_at is not None and not job.has_started):
        return True
    if job.phase is JobPhase.RUNNING:
        return not job.nodes or not job.prologs.keys() >= set(job.nodes)
    return job.phase not in (JobPhase.SUBMITTED, JobPhase.PENDING)


def details_due_at(job: Job) -> float | None:
    """Return when to read the details of the job, in seconds of the clock; None means not before the job changes.

    A pending job is read now and then, to learn why it waits. A running job is read to learn its nodes, and again as
    long as Slurm says that it waits for its Prologs and not all of them have called.
    """
    if job.is_anothers:
        return None
    if "PENDING" in job.state:
        # The longer a job has waited, the less often it is read: each pause is half of the time waited until then.
        pause_s = min(max((job.read_at - job.known_at) / 2, _REASON_EACH_S), _LONGEST_REASON_S)
        return max(job.known_at + _FIRST_REASON_S, job.read_at + pause_s)
    if "RUNNING" not in job.state or (job.nodes and job.prologs.keys() | job.epilogs.keys() >= set(job.nodes)):
        return None
    if not job.nodes:
        return float("-inf")
    return job.read_at + _REASON_EACH_S if job.slurm.state_reason == WAITS_FOR_PROLOG else None

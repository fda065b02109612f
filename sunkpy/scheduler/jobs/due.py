"""Which jobs are to be read in full, kept in the order in which they were read, so that no poll walks over all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from typing import Final

from sunkpy.core.gang.job.job import WAITS_FOR_PROLOG, Job
from sunkpy.core.model.states import JobId

_FIRST_REASON_S: Final = 2.0
_REASON_EACH_S: Final = 5.0
_LONGEST_REASON_S: Final = 30.0
_MOST_LOOKED_AT: Final = 1000
_NEVER: Final = float("-inf")


class DueJobs:
    """Of all gangs. A job that was never read goes before all others."""

    def __init__(self) -> None:
        self._started: OrderedDict[JobId, Job] = OrderedDict()
        self._waiting: OrderedDict[JobId, Job] = OrderedDict()

    def file(self, job: Job) -> None:
        """The job is new, or something about it has changed."""
        self.forget(job.id)
        if details_due_at(job) is not None:
            lane = self._started if job.has_started else self._waiting
            lane[job.id] = job
            lane.move_to_end(job.id, last=job.read_at != _NEVER)

    def forget(self, job: JobId) -> None:
        """It is nobody's any more."""
        self._started.pop(job, None)
        self._waiting.pop(job, None)

    def take(self, now: float, *, started: int, waiting: int) -> list[Job]:
        """The jobs to read: those that have started, for pods wait to hear where; then why others wait.

        At most so many of each, those first that were read longest ago. They stay due until they are filed anew.
        """
        return [*islice(_due(self._started, now), started), *islice(_due(self._waiting, now), waiting)]


def _due(lane: OrderedDict[JobId, Job], now: float) -> Iterator[Job]:
    for job in islice(lane.values(), _MOST_LOOKED_AT):
        if (due_at := details_due_at(job)) is not None and due_at <= now:
            yield job


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

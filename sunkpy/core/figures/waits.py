"""Metric `sunkpy_job_wait_seconds`: how long jobs waited from when they could have started (`Planned` of sacct(1)).

Each start of a job counts once, however often the job is read: the leader remembers counted starts as long as Slurm
remembers the job. A start counts only if it came after the leader's first read, by Slurm's clock. So a new leader
counts no start again, and starts between two leaders are lost. A requeued job counts again when it starts again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

from sunkpy.core.figures.family import MetricFamily, Sample
from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.gang.identity import door_of

_BOUNDS_S: Final = (10, 60, 300, 900, 3600, 14_400, 43_200, 86_400, 259_200, 604_800)
_ENDS: Final = (*map(str, _BOUNDS_S), "+Inf")
_LABELS: Final = ("account", "partition", "door", "le")

_Key = tuple[str, str, str]


class WaitTimes:
    """The histogram of jobs' waiting times, as one leader of the syncer has counted them since its start."""

    def __init__(self) -> None:
        self._since_s = 0
        self._counted: dict[int, int] = {}
        self._counts: dict[_Key, list[int]] = {}
        self._sums: dict[_Key, int] = {}

    def begin(self, slurm_s: int) -> None:
        """Set the moment, by Slurm's clock, after which job starts count; only the first call with a time other than 0
        counts. 0 means that Slurm did not say its time.
        """
        self._since_s = self._since_s or slurm_s

    def add(self, jobs: Iterable[JobRow], *, is_whole: bool) -> None:
        """Count the waiting times of those jobs that have started since `begin` and were not counted yet. `is_whole`:
        `jobs` are all jobs that Slurm has.
        """
        if not self._since_s:
            return
        started = {job.id: job for job in jobs if job.started_s > self._since_s}
        for job in started.values():
            if self._counted.get(job.id) != job.started_s:
                self._count((job.account, job.partition, door_of(job.comment)), job.waited_s)
        now = {job.id: job.started_s for job in started.values()}
        self._counted = now if is_whole else self._counted | now

    def _count(self, key: _Key, waited_s: int) -> None:
        self._counts.setdefault(key, [0] * len(_ENDS))[bisect_left(_BOUNDS_S, waited_s)] += 1
        self._sums[key] = self._sums.get(key, 0) + waited_s

    @property
    def family(self) -> MetricFamily:
        """The metric `sunkpy_job_wait_seconds` with the waiting times counted so far."""
        text = (
            "Seconds that jobs waited from when they were eligible to start until they started, by account, "
            "partition and door (`Slurm`: jobs of people; `Kubernetes`: pods)"
        )
        samples = [sample for key in self._counts for sample in self._samples(key)]
        return MetricFamily(
            name="sunkpy_job_wait_seconds", help=text, labels=_LABELS, samples=samples, lines=len(_ENDS) + 2
        )

    def _samples(self, key: _Key) -> Iterator[Sample]:
        counts = list(accumulate(self._counts[key]))
        for end, count in zip(_ENDS, counts, strict=True):
            yield Sample((*key, end), count)
        yield Sample((*key, "_sum"), self._sums[key])
        yield Sample((*key, "_count"), counts[-1])

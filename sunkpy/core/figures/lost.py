"""Metrics of the work that jobs lost because their nodes failed, in CPU and GPU seconds.

A lost run of a job counts from its start until the job was last read as running. Slurm ends a job whose node fails
(NODE_FAIL), or requeues it. A requeued job counts if one of its former nodes is down or gone when sunkpy first reads
the job after the requeue. Runs that start and fail between two reads do not count. A job that writes checkpoints has
lost less than its run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from sunkpy.core.figures.family import MetricFamily, Sample
from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.model.states import SlurmNode

_FAILED: Final = frozenset({"NODE_FAIL", "BOOT_FAIL"})
_ENDED: Final = "failed"
_AGAIN: Final = "requeued"

_Key = tuple[str, str]


class LostWork:
    """The counters of work that jobs lost, as one leader of the syncer has counted them since its start. `nodeset_of`:
    returns the NodeSet of a Slurm node; empty if there is none.
    """

    def __init__(self, nodeset_of: Callable[[str], str]) -> None:
        self._nodeset_of = nodeset_of
        self._running: dict[int, tuple[JobRow, int]] = {}
        self._jobs: Counter[_Key] = Counter()
        self._seconds: Counter[tuple[str, str, str]] = Counter()

    def add(self, jobs: Iterable[JobRow], nodes: Mapping[str, SlurmNode], slurm_s: int, *, is_whole: bool) -> None:
        """Compare these jobs with those of the last read, and count the runs that were lost since.

        `slurm_s`: the time by Slurm's clock; with 0, which means not known, nothing is counted. `is_whole`: `jobs` are
        all jobs that Slurm has.
        """
        if not slurm_s:
            return
        running = {} if is_whole else self._running
        for job in jobs:
            was = self._running.get(job.id)
            how = _how_lost(was[0], job, nodes) if was is not None else ""
            if was is not None and how:
                self._count(*was, how)
            if "RUNNING" in job.state and job.started_s:
                running[job.id] = (job, slurm_s)
            else:
                running.pop(job.id, None)
        self._running = running

    def _count(self, job: JobRow, seen_s: int, how: str) -> None:
        nodeset = self._nodeset_of(job.nodes[0]) if job.nodes else ""
        self._jobs[nodeset, how] += 1
        lasted_s = max(seen_s - job.started_s, 0)
        for of, count in (("cpu", job.cpus), ("gpu", job.gpus)):
            if count:
                self._seconds[nodeset, how, of] += lasted_s * count

    @property
    def families(self) -> Iterator[MetricFamily]:
        """The metrics `sunkpy_jobs_lost_total` and `sunkpy_job_lost_seconds_total`."""
        yield MetricFamily(
            name="sunkpy_jobs_lost_total",
            help="Runs of jobs that ended because a node failed, by `how`: the job `failed` or was `requeued`",
            labels=("nodeset", "how"),
            samples=[Sample(key, count) for key, count in self._jobs.items()],
        )
        yield MetricFamily(
            name="sunkpy_job_lost_seconds_total",
            help="Seconds of CPUs or GPUs that jobs had used when their run ended because a node failed, by `of`: "
            "`cpu` or `gpu`",
            labels=("nodeset", "how", "of"),
            samples=[Sample(key, seconds) for key, seconds in self._seconds.items()],
        )


def _how_lost(was: JobRow, job: JobRow, nodes: Mapping[str, SlurmNode]) -> str:
    """Return how a job that ran at the last read (`was`) has lost its run since: `failed` or `requeued`; empty if it
    has not.
    """
    if job.state & _FAILED:
        return _ENDED
    is_another_run = job.started_s != was.started_s and ("PENDING" in job.state or "RUNNING" in job.state)
    has_failed = any(name not in nodes or nodes[name].is_down for name in was.nodes)
    return _AGAIN if is_another_run and has_failed else ""

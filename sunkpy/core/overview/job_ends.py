"""The jobs that still run on nodes which are to be emptied, and when Slurm ends them at the latest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from sunkpy.core.gang.identity import parse_comment
from sunkpy.core.model import hostlist
from sunkpy.core.model.states import holds_something, is_job_pending
from sunkpy.core.model.times import rfc3339
from sunkpy.core.overview.queue import QueuedJob
from sunkpy.core.overview.table import Table


class JobEnd(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A job that runs on nodes which are to be emptied. `name`: its name, or for a job of pods the name of their gang
    (group).

    `ends`: when its time limit is over; empty if it has none. `slurm_nodes`: those of its nodes that are to be emptied.
    """

    job: int
    name: str
    user: str
    ends: str = ""
    slurm_nodes: tuple[str, ...] = ()


def find_job_ends(jobs: Iterable[QueuedJob], slurm_nodes: Collection[str]) -> tuple[JobEnd, ...]:
    """Return the jobs on these Slurm nodes, in the order in which they end; jobs without a time limit come last."""
    there = [
        (job, held)
        for job in jobs
        if holds_something(job.row.state) and not is_job_pending(job.row.state)
        if (held := tuple(node for node in job.row.nodes if node in slurm_nodes))
    ]
    there.sort(key=lambda found: (not found[0].ended_s, found[0].ended_s, found[0].row.id))
    return tuple(_job_end(job, held) for job, held in there)


def by_slurm_node(ends: Iterable[JobEnd]) -> Mapping[str, Sequence[JobEnd]]:
    """Return Slurm node → its jobs, in the order in which they end."""
    found: dict[str, list[JobEnd]] = {}
    for end in ends:
        for node in end.slurm_nodes:
            found.setdefault(node, []).append(msgspec.structs.replace(end, slurm_nodes=(node,)))
    return found


def _job_end(job: QueuedJob, held: tuple[str, ...]) -> JobEnd:
    gang = parse_comment(job.row.comment)
    ends = rfc3339(datetime.fromtimestamp(job.ended_s, UTC)) if job.ended_s > 0 else ""
    name = str(gang) if gang is not None else job.name
    return JobEnd(job=job.row.id, name=name, user=job.row.user, ends=ends, slurm_nodes=held)


def job_end_table(ends: Iterable[JobEnd]) -> Table:
    """Return a table with a row for each job: its nodes, and when it ends at the latest."""
    rows = tuple(
        (str(each.job), each.user, each.name, hostlist.describe(each.slurm_nodes), each.ends or "no time limit")
        for each in ends
    )
    return Table(titles=("JOB", "USER", "NAME", "SLURM NODES", "ENDS AT THE LATEST"), rows=rows)


def job_end_text(end: JobEnd) -> str:
    """Return a line that says when a job ends at the latest."""
    by = f"ends by {end.ends}" if end.ends else "has no time limit"
    return f"job {end.job} of {end.user} ({end.name}) {by}"

"""The page's table of hand-overs: which job lost its nodes, to which other job, and how long the other job waited for
them.

The Event of an eviction names the job of the evicted pod, and the next job if the scheduler knew it. The hand-over ends
with the start of the next job, while Slurm remembers that job. Otherwise it ends when the pod is gone, which the page
sees at its refresh every few seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from sunkpy.core.gang.identity import parse_comment
from sunkpy.core.gang.job.ends import flag_of
from sunkpy.core.gang.phases import has_left_node
from sunkpy.core.model.events import Event
from sunkpy.core.model.states import is_job_pending
from sunkpy.core.model.times import parse_rfc3339, rfc3339
from sunkpy.core.overview.pool import PoolFacts
from sunkpy.core.overview.queue import QueuedJob
from sunkpy.core.page.rows import HandOverRow

MOST: Final = 200
_JOB: Final = re.compile(r"Slurm job (\d+) ([^;]*?)(?: by (Slurm job (\d+)[^;]*))?(?:;|$)")
"""The text of an eviction's Event, as `core.gang.job.ends` writes it: the job, how it ended, and the next job."""


def find_handovers(
    events: Iterable[Event], pool: PoolFacts, now: datetime, before: Mapping[str, msgspec.Struct]
) -> Mapping[str, HandOverRow]:
    """Return the hand-overs, the newest first. `before`: the rows of the last update, from which the times of finished
    ones are taken.
    """
    jobs = {job.row.id: job for job in pool.jobs or ()}
    there = {"/".join(pod.key) for pod in pool.pods if pod.spec.node_name and not has_left_node(pod)}
    found = {event.uid: _of_event(event, jobs, there) for event in events if flag_of(event.reason)}
    rows = {key: _timed(row, before.get(key), now) for key, row in found.items()} | dict(_of_jobs(jobs.values()))
    newest = sorted(rows.items(), key=lambda each: each[1].at, reverse=True)
    return dict(newest[:MOST])


def _of_event(event: Event, jobs: Mapping[int, QueuedJob], there: set[str]) -> HandOverRow:
    said = _JOB.match(event.message)
    job, cause, by, by_job = said.groups() if said is not None else ("0", event.message, "", "0")
    pod = f"{event.involved_object.namespace}/{event.involved_object.name}"
    next_job = jobs.get(int(by_job or 0))
    waits = next_job is not None and is_job_pending(next_job.row.state)
    took_s = _seconds(event.at, next_job.starts_s) if next_job is not None and not waits else None
    return HandOverRow(
        at=event.at,
        pod=pod,
        job=int(job),
        cause=cause,
        by_job=int(by_job or 0),
        by=by or "",
        is_open=waits or (took_s is None and pod in there),
        took_s=took_s,
    )


def _timed(row: HandOverRow, earlier: msgspec.Struct | None, now: datetime) -> HandOverRow:
    if row.is_open or row.took_s is not None or not isinstance(earlier, HandOverRow):
        return row
    took_s = _seconds(row.at, int(now.timestamp())) if earlier.is_open else earlier.took_s
    return msgspec.structs.replace(row, took_s=took_s)


def _of_jobs(jobs: Iterable[QueuedJob]) -> Iterator[tuple[str, HandOverRow]]:
    """Yield a row for each preempted job of a person, while Slurm remembers it; Slurm does not say which job preempted
    it.
    """
    for job in jobs:
        if "PREEMPTED" in job.row.state and parse_comment(job.row.comment) is None and job.ended_s:
            at = rfc3339(datetime.fromtimestamp(job.ended_s, UTC))
            yield f"job {job.row.id}", HandOverRow(at=at, job=job.row.id, user=job.row.user, cause="was preempted")


def _seconds(at: str, until_s: int) -> int | None:
    try:
        return max(0, until_s - int(parse_rfc3339(at).timestamp())) if until_s else None
    except ValueError:
        return None

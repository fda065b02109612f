"""How a job ends once its pods are done, and how pods are evicted. Which pods: see `bound` and `lost_job`."""

from __future__ import annotations

from collections.abc import Iterable

from sunkpy.core.gang.actions import Cancel, Evict, Finish, GangAction
from sunkpy.core.gang.decide.grace import bounded, longest_grace_s
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.job.job import Job
from sunkpy.core.gang.job.phases import STOPPED
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.snapshot import Snapshot

IDLE_PATIENCE_S = 120.0
"""How long a job holds its nodes for pods that do not come."""

NO_ANSWER = "the placeholder job did not end after its signal"
CANCELLED_BEFORE = "it was cancelled before, and Slurm has not ended it yet"
NO_SLOTS_LEFT = "the pods that it was made for have ended, and it has no slots for others"
_NOT_BEGUN = f"its pods have ended, and {IDLE_PATIENCE_S:.0f} s later its script has not begun"
_STOPPED = "its pods have ended, and Slurm would start it again without them"
_NO_SCRIPT = "its pods have ended, and an allocation has no script that could end by itself"

TOLD_PATIENCE_S = 15.0
"""How long a placeholder job may take to end by itself after its signal, before it is cancelled."""


def end_jobs(snapshot: Snapshot) -> list[GangAction]:
    """End the jobs: all pods are gone or finished."""
    return [action for job in snapshot.live_jobs for action in _end_job(snapshot, job)]


def _end_job(snapshot: Snapshot, job: Job) -> list[GangAction]:
    gang = snapshot.gang or snapshot.last_gang
    if gang is None:
        return [Cancel(job=job.id, why="the pods are gone")]
    # Only the job that the pods ran under ends with their exit code.
    if job.id != snapshot.bound_to:
        return [Cancel(job=job.id, why="the pods finished under another job")]
    if is_unanswered(snapshot, job):
        return [Cancel(job=job.id, why=NO_ANSWER)]
    # Its owner will make more pods for these seats.
    if snapshot.gang is not None and gang.expects_more and not job.is_let_go and snapshot.idle_s < IDLE_PATIENCE_S:
        return []
    if job.is_allocation:
        return [Cancel(job=job.id, why=_NO_SCRIPT)]
    if job.phase in STOPPED:
        return [Cancel(job=job.id, why=_STOPPED)]
    if not job.is_script_running:
        return [Cancel(job=job.id, why=_NOT_BEGUN)] if snapshot.idle_s >= IDLE_PATIENCE_S else []
    return [Finish(job=job.id, exit_code=0 if gang.has_succeeded else 1)]


def is_unanswered(snapshot: Snapshot, job: Job) -> bool:
    """True if it got the signal to end, and did not end in time."""
    return job.heard_at is not None and snapshot.now - job.heard_at > TOLD_PATIENCE_S


def evict_all(evictions: Iterable[Evict], gang: Gang, policy: Policy) -> list[GangAction]:
    """Each with a bounded grace period; those that are being deleted already come first, so that all others are evicted
    at once.
    """
    bounded_ones = [bounded(eviction, longest_grace_s(gang, policy)) for eviction in evictions]
    return sorted(bounded_ones, key=lambda action: isinstance(action, Evict))


def cancel_all(jobs: Iterable[Job], why: str) -> list[GangAction]:
    """Cancel each of them, for the same reason."""
    return [Cancel(job=job.id, why=why) for job in jobs]

"""How a job ends once its pods are done, and how pods are evicted. The modules `bound` and `lost_job` choose the pods
that are evicted.

The author of a pod sets its grace period, and it may be a day. Until the pod is gone, Slurm starts nothing on the node,
and an Epilog that waits too long drains the node. So a pod whose job has ended gets a limited grace period: by default
5 minutes at most (`Policy.grace_limit_s`). A grace period can only be shortened, also for a pod that is being deleted
(Kubernetes, `rest.BeforeDelete`). The kubelet counts a shortened grace period from the moment when it hears of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime

import msgspec

from sunkpy.core.gang.actions import Cancel, Evict, Finish, GangAction, Shorten
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.job.job import Job
from sunkpy.core.gang.job.phases import STOPPED
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.snapshot import Snapshot, grace_s
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.times import parse_rfc3339

IDLE_PATIENCE_S = 120.0
"""For how many seconds a job keeps its nodes for pods that do not come."""
NO_ANSWER = "the placeholder job did not end after its signal"
CANCELLED_BEFORE = "it was cancelled before, and Slurm has not ended it yet"
NO_SLOTS_LEFT = "the pods that it was made for have ended, and it has no slots for others"
_NOT_BEGUN = f"its pods have ended, and {IDLE_PATIENCE_S:.0f} s later its script has not begun"
_STOPPED = "its pods have ended, and Slurm would start it again without them"
_NO_SCRIPT = "its pods have ended, and an allocation has no script that could end by itself"
SIGNAL_PATIENCE_S = 15.0
"""For how many seconds a placeholder job may take to end after its signal. Then it is cancelled."""


def with_shorter_grace(evict: Evict, longest_s: int) -> Evict | Shorten:
    """Return the eviction with a grace period of at least 1 and at most `longest_s` seconds. If somebody else has
    deleted the pod already, with a longer grace period, return an action that shortens it.
    """
    pod, given_s, asked_s = evict.pod, evict.pod.metadata.deletion_grace_period_seconds, grace_s(evict.pod)
    if pod.is_deleting and given_s is not None and given_s > longest_s:
        return Shorten(pod=pod, grace_s=longest_s)
    if asked_s > longest_s:
        return msgspec.structs.replace(evict, grace_s=longest_s)
    # With a grace of 0 the apiserver would forget the pod before the kubelet has heard of the deletion.
    return msgspec.structs.replace(evict, grace_s=1 if asked_s == 0 else None)


def at_most(longest_s: int, pod: Pod, *, now: datetime) -> int:
    """Return the grace period in seconds with which to delete a pod: `longest_s`. If the pod is being deleted already
    and less remains of its grace period, return what remains, because the kubelet would start to count a longer one
    again.

    If the grace period is over and the pod still exists, its kubelet learned of the deletion late: the pod gets
    `longest_s`. `now` is wall-clock time, because the apiserver notes the end of the grace period in wall-clock time.
    """
    until = pod.metadata.deletion_timestamp
    left_s = math.ceil((parse_rfc3339(until) - now).total_seconds()) if until is not None else 0
    return min(longest_s, left_s) if left_s > 0 else longest_s


def end_jobs(snapshot: Snapshot) -> list[GangAction]:
    """Return the actions that end the gang's jobs, because all pods of the gang are gone or finished. A job that has to
    keep its nodes for pods to come, or cannot be ended yet, gets no action.
    """
    return [action for job in snapshot.live_jobs for action in _end_job(snapshot, job)]


def _end_job(snapshot: Snapshot, job: Job) -> list[GangAction]:
    gang = snapshot.gang or snapshot.last_gang
    if gang is None:
        return [Cancel(job=job.id, why="the pods are gone")]
    # Only the job under which the pods ran ends with their exit code.
    if job.id != snapshot.bound_to:
        return [Cancel(job=job.id, why="the pods finished under another job")]
    if is_unanswered(snapshot, job):
        return [Cancel(job=job.id, why=NO_ANSWER)]
    # The owner will make more pods for these seats.
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
    """True if more than `SIGNAL_PATIENCE_S` seconds have passed since Slurm first answered the request to send the job
    the signal to end. The caller asks only about jobs that have not ended.
    """
    return job.signal_answered_at is not None and snapshot.now - job.signal_answered_at > SIGNAL_PATIENCE_S


def evict_all(evictions: Iterable[Evict], gang: Gang, policy: Policy) -> list[GangAction]:
    """Return these evictions, with their grace periods limited to what the gang's pods may have. First come the actions
    that only shorten the grace period of a pod that somebody else has deleted, so that all other pods are evicted
    together.
    """
    longest_s = policy.grace_limit_s(gang)
    bounded_ones = [with_shorter_grace(eviction, longest_s) for eviction in evictions]
    return sorted(bounded_ones, key=lambda action: isinstance(action, Evict))

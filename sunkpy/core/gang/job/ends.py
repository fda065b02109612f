"""Why a job ended, in the words that a pod's owner reads, and which job took its place.

Pods of a job that gave way or lost its node are disrupted: a podFailurePolicy that ignores the condition
DisruptionTarget tries them again for nothing. A job that a person cancelled, or that reached its own limit of time or
memory, was not: ignored, its pods would be made again for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final

import msgspec

from sunkpy.core.model import matching
from sunkpy.core.model.objects import Budget, Pod
from sunkpy.core.model.states import JobId, SlurmJob, is_job_pending

NEWEST_ASKED: Final = 5
"""The preemptor is looked for among this many of the newest jobs that have to be asked for, each in a request: it has
mostly just been submitted.
"""
NEWEST_KNOWN: Final = 50
"""Among the jobs that are known already, so many are looked at as well: they cost no request."""

IsKnown = Callable[[JobId], bool]

DISRUPTION_TARGET: Final = "DisruptionTarget"
JOB_ENDED: Final = "sunkpy.dev/JobEnded"
END_CONDITIONS: Final = (DISRUPTION_TARGET, JOB_ENDED)
"""Conditions of an evicted pod: one of them says why the pod has to go."""

DEVICES_LOST: Final = "DevicesLost"
JOB_LOST: Final = "SlurmJobLost"
BOUND_BY_OTHERS: Final = "BoundByOthers"
_ENDED: Final = "SlurmJobEnded"
_BY_ITSELF: Final = frozenset({"SlurmJobTimeout", "SlurmJobDeadline", "SlurmJobCancelled", "SlurmJobFailed"})


class EndCause(msgspec.Struct, frozen=True, kw_only=True):
    """Reason of the pod's condition, and the sentence for condition and Event."""

    reason: str
    message: str

    @property
    def condition(self) -> str:
        """Type of the condition that says it."""
        return JOB_ENDED if self.reason in _BY_ITSELF else DISRUPTION_TARGET

    @property
    def is_preemption(self) -> bool:
        """The job gave way to another."""
        return self.reason == "PreemptionByScheduler"


# KEP-3329 reserves PreemptionByScheduler for what the scheduler does on behalf of a higher priority.
_BY_FLAG: Final = (
    ("PREEMPTED", "PreemptionByScheduler", "was preempted"),
    ("TIMEOUT", "SlurmJobTimeout", "reached its time limit"),
    ("DEADLINE", "SlurmJobDeadline", "reached its deadline"),
    ("NODE_FAIL", "SlurmNodeFail", "lost its node"),
    ("CANCELLED", "SlurmJobCancelled", "was cancelled"),
    ("SUSPENDED", "SlurmJobSuspended", "was suspended, which pods cannot be"),
    ("PENDING", "SlurmJobRequeued", "was queued again"),
    ("REQUEUED", "SlurmJobRequeued", "was queued again"),
    ("OUT_OF_MEMORY", "SlurmJobFailed", "ran out of memory"),
    ("BOOT_FAIL", "SlurmNodeFail", "failed to boot its node"),
    ("FAILED", "SlurmJobFailed", "failed"),
)


def cause_of_end(job: JobId, state: frozenset[str]) -> EndCause:
    """The cause that is told to people when a job has ended in `state`."""
    for flag, reason, text in _BY_FLAG:
        if flag in state:
            return EndCause(reason=reason, message=f"Slurm job {job} {text}")
    return EndCause(reason=_ENDED, message=f"Slurm job {job} ended")


def named(cause: EndCause, preemptor: SlurmJob | None) -> EndCause:
    """The cause of a preemption with the job that preempted, when it was found."""
    if preemptor is None or not cause.is_preemption:
        return cause
    return EndCause(reason=cause.reason, message=f"{cause.message} by {describe(preemptor)}")


def find_violated(pod: Pod, budgets: Iterable[Budget]) -> Budget | None:
    """A PodDisruptionBudget that has too few healthy pods since this pod was evicted."""
    for budget in budgets:
        selector, status = budget.spec.selector, budget.status
        is_of_it = selector is not None and matching.matches_labels(selector, pod.labels)
        if is_of_it and status.current_healthy < status.desired_healthy:
            return budget
    return None


def flag_of(reason: str) -> str:
    """The state of a job whose pods were evicted for this reason; empty when the reason is not one of ours."""
    return next((flag for flag, known, _ in _BY_FLAG if known == reason), "")


def describe(job: SlurmJob) -> str:
    """`Slurm job 57 (user alice, partition high)`."""
    return f"Slurm job {job.id} (user {job.user or 'unknown'}, partition {job.partition or 'unknown'})"


def pending_to_look_at(states: Mapping[JobId, frozenset[str]], is_known: IsKnown) -> tuple[JobId, ...]:
    """The newest pending jobs, the newest first: the job that preempts now is among them."""
    return newest_first((job for job, state in states.items() if "PENDING" in state), is_known)


def begun_to_look_at(
    states: Mapping[JobId, frozenset[str]], waited: Iterable[JobId], is_known: IsKnown
) -> tuple[JobId, ...]:
    """Jobs that waited before and wait no more, newest first, as many as `newest_first` takes."""
    return newest_first((job for job in waited if has_begun(states.get(job))), is_known)


def begun_between(
    before: Mapping[JobId, frozenset[str]], states: Mapping[JobId, frozenset[str]], is_known: IsKnown
) -> tuple[JobId, ...]:
    """Jobs that began between two answers, and may have ended, newest first, as many as `newest_first` takes."""
    begun = (job for job, state in states.items() if has_begun(state) and not has_begun(before.get(job)))
    return newest_first(begun, is_known)


def has_begun(state: frozenset[str] | None) -> bool:
    """Whether a job of this state waits no more; None: Slurm does not have it."""
    return state is not None and not is_job_pending(state)


def newest_first(jobs: Iterable[JobId], is_known: IsKnown) -> tuple[JobId, ...]:
    """The newest of these jobs, as many as are looked at."""
    left = {True: NEWEST_KNOWN, False: NEWEST_ASKED}
    found = []
    for job in sorted(jobs, reverse=True):
        kind = is_known(job)
        if left[kind]:
            left[kind] -= 1
            found.append(job)
    return tuple(found)


def choose_preemptor(
    candidates: Iterable[SlurmJob],
    *,
    node: str,
    preempted: SlurmJob,
    waited: Container[JobId],
    tiers: Mapping[str, int],
    named: Mapping[JobId, frozenset[str]],
) -> SlurmJob | None:
    """The job for which Slurm makes room on `node`: planned there if Slurm says so, else the first in line.

    If candidates have begun there since, it is the first of them; None if two began in that second. Only a job of a
    higher tier than that of the `preempted` one can be meant (preempt/partition_prio).

    Args:
        waited: candidates that waited when the job was preempted already. Others have begun since if they began later
            than it ended, as Slurm starts nothing on the node before its pods have left. What began in the same second
            may have done so before: it counts only if Slurm plans no other job there.
        tiers: priority tier of each partition that has the node; Slurm orders by tier, then priority, then age.
        named: the nodes for which each job was named lately; one that has all its nodes needs no more.
    """
    above = _tier(preempted, tiers)
    higher = [job for job in candidates if _tier(job, tiers) > above]
    begun = [job for job in higher if not job.is_pending and node in job.nodes]
    since = [job for job in begun if job.id in waited or 0 < preempted.ended_s < job.started_s]
    usable = [job for job in higher if job.is_pending and _may_use(job, node, tiers, named)]
    planned = [job for job in usable if node in job.scheduled_nodes or node in job.required_nodes]
    perhaps = [] if planned else [job for job in begun if 0 < preempted.ended_s == job.started_s]
    if since or perhaps:
        order = sorted(since or perhaps, key=lambda job: job.started_s)
        is_one = len(order) == 1 or order[0].started_s < order[1].started_s
        return order[0] if is_one else None
    if begun and not preempted.ended_s:
        return None  # it may be one of them, but it is not known when the other ended
    return min(planned or usable, key=lambda job: (-_tier(job, tiers), -job.priority, job.id), default=None)


def _tier(job: SlurmJob, tiers: Mapping[str, int]) -> int:
    return max((tiers.get(name, 0) for name in job.partition.split(",")), default=0)


def _may_use(job: SlurmJob, node: str, tiers: Mapping[str, int], named: Mapping[JobId, frozenset[str]]) -> bool:
    nodes = named.get(job.id, frozenset()) | {node}
    fits = node not in job.excluded_nodes and any(name in tiers for name in job.partition.split(","))
    seats = len(nodes | set(job.required_nodes))
    return fits and seats <= max(job.node_count, 1)

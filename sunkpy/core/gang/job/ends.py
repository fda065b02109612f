"""Says why a job ended, in words for the owner of its pods, and finds the job that took its node.

Pods of a job that was preempted or lost its node are disrupted and get the condition DisruptionTarget: a Job whose
podFailurePolicy ignores this condition does not count their failure. Pods of a job that failed, that a person
cancelled, or that reached its own limit of time or memory, get another condition. If they got DisruptionTarget, a Job
that ignores it would make these pods again for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final

import msgspec

from sunkpy.core.model import matching
from sunkpy.core.model.objects import Budget, Pod
from sunkpy.core.model.states import JobId, SlurmJob, is_job_pending

NEWEST_ASKED: Final = 5
"""The most jobs that are read from Slurm to find a preemptor (the job that took a node), each in a request of its own.
These are the newest of the jobs that the scheduler does not know: most preemptors were submitted just before.
"""
NEWEST_KNOWN: Final = 50
"""The most of the newest jobs known to the scheduler that are compared to find a preemptor. They cost no request."""

IsKnown = Callable[[JobId], bool]

DISRUPTION_TARGET: Final = "DisruptionTarget"
JOB_ENDED: Final = "sunkpy.dev/JobEnded"
END_CONDITIONS: Final = (DISRUPTION_TARGET, JOB_ENDED)
"""Conditions of an evicted pod. One of them says why the pod is evicted."""

DEVICES_LOST: Final = "DevicesLost"
JOB_LOST: Final = "SlurmJobLost"
BOUND_BY_OTHERS: Final = "BoundByOthers"
_ENDED: Final = "SlurmJobEnded"
_BY_ITSELF: Final = frozenset({"SlurmJobTimeout", "SlurmJobDeadline", "SlurmJobCancelled", "SlurmJobFailed"})


class EndCause(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod is evicted. `reason` is the reason in the condition that the pod gets, and `message` is a sentence for
    this condition and for an Event.
    """

    reason: str
    message: str

    @property
    def condition(self) -> str:
        """The type of the condition that the evicted pod gets: `sunkpy.dev/JobEnded` if its job failed, was cancelled
        or reached its own limit, in all other cases DisruptionTarget.
        """
        return JOB_ENDED if self.reason in _BY_ITSELF else DISRUPTION_TARGET

    @property
    def is_preemption(self) -> bool:
        """True if the pod is evicted because Slurm preempted its job."""
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
    """Return why the pods of a job are evicted. `state` is the set of flags of the job's state in Slurm, such as
    `PREEMPTED`.
    """
    for flag, reason, text in _BY_FLAG:
        if flag in state:
            return EndCause(reason=reason, message=f"Slurm job {job} {text}")
    return EndCause(reason=_ENDED, message=f"Slurm job {job} ended")


def named(cause: EndCause, preemptor: SlurmJob | None) -> EndCause:
    """Return the cause, with the preemptor (the job that took the node) added to its message if the job was preempted
    and the preemptor was found.
    """
    if preemptor is None or not cause.is_preemption:
        return cause
    return EndCause(reason=cause.reason, message=f"{cause.message} by {describe(preemptor)}")


def find_violated(pod: Pod, budgets: Iterable[Budget]) -> Budget | None:
    """Return a PodDisruptionBudget that selects the evicted pod and has fewer healthy pods than it demands; None if
    there is none.
    """
    for budget in budgets:
        selector, status = budget.spec.selector, budget.status
        is_of_it = selector is not None and matching.matches_labels(selector, pod.labels)
        if is_of_it and status.current_healthy < status.desired_healthy:
            return budget
    return None


def flag_of(reason: str) -> str:
    """Return the flag of a Slurm job's state for which sunkpy gives this reason in a pod's condition: `PREEMPTED` for
    `PreemptionByScheduler`. The first such flag counts; empty if there is none.
    """
    return next((flag for flag, known, _ in _BY_FLAG if known == reason), "")


def describe(job: SlurmJob) -> str:
    """Return the id, the user and the partition of a job in words: `Slurm job 57 (user alice, partition high)`."""
    return f"Slurm job {job.id} (user {job.user or 'unknown'}, partition {job.partition or 'unknown'})"


def pending_candidates(states: Mapping[JobId, frozenset[str]], is_known: IsKnown) -> tuple[JobId, ...]:
    """Return the newest pending jobs, the newest first: if a job preempts others now, it is probably one of them.
    `states`: the state flags of each job. `is_known`: True if the scheduler knows the job already, so that it need not
    be read.
    """
    return newest_first((job for job, state in states.items() if "PENDING" in state), is_known)


def begun_candidates(
    states: Mapping[JobId, frozenset[str]], waited: Iterable[JobId], is_known: IsKnown
) -> tuple[JobId, ...]:
    """Return the newest of the jobs in `waited` that no longer wait, the newest first. `waited`: jobs that were pending
    earlier; `states`: the state flags of each job in Slurm's newest answer. `is_known`: True if the scheduler knows the
    job already.
    """
    return newest_first((job for job in waited if has_begun(states.get(job))), is_known)


def begun_between(
    before: Mapping[JobId, frozenset[str]], states: Mapping[JobId, frozenset[str]], is_known: IsKnown
) -> tuple[JobId, ...]:
    """Return the newest of the jobs that began between two answers of Slurm, the newest first. They may have ended
    already. `before` and `states`: the state flags of each job in the earlier and in the later answer.
    """
    begun = (job for job, state in states.items() if has_begun(state) and not has_begun(before.get(job)))
    return newest_first(begun, is_known)


def has_begun(state: frozenset[str] | None) -> bool:
    """True if a job with these state flags is no longer pending: it runs or has ended. False for None: Slurm does not
    have the job.
    """
    return state is not None and not is_job_pending(state)


def newest_first(jobs: Iterable[JobId], is_known: IsKnown) -> tuple[JobId, ...]:
    """Return only the newest of these jobs, the newest first: at most `NEWEST_KNOWN` that the scheduler knows
    (`is_known`), and at most `NEWEST_ASKED` others, each of which has to be read from Slurm.
    """
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
    """Return the job for which Slurm most likely preempted the job `preempted` on `node`; None if no job can be named.

    It is the first candidate that has begun on the node since the preemption, unless two began in the same second. If
    two did, no job is named. If none has begun there, it is a candidate that Slurm plans to start there, or without one
    the first in Slurm's queue that may use the node. Only a job of a higher priority tier than `preempted` can be the
    preemptor (preempt/partition_prio).

    Args:
        waited: candidates that were pending when the job was preempted. Another candidate counts only if it began later
            than the preempted job ended: Slurm starts nothing on the node before the pods have left. A candidate that
            began in the same second counts only if Slurm plans no other job there.
        tiers: the priority tier of each partition that has the node; Slurm orders jobs by tier, then by priority, then
            by age.
        named: for each job, the nodes for which it was named as preemptor a short time ago. A waiting job is not named
            for more nodes than it asks for.
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
        return None  # one of them may be the preemptor, but Slurm does not say when the preempted job ended
    return min(planned or usable, key=lambda job: (-_tier(job, tiers), -job.priority, job.id), default=None)


def _tier(job: SlurmJob, tiers: Mapping[str, int]) -> int:
    return max((tiers.get(name, 0) for name in job.partition.split(",")), default=0)


def _may_use(job: SlurmJob, node: str, tiers: Mapping[str, int], named: Mapping[JobId, frozenset[str]]) -> bool:
    nodes = named.get(job.id, frozenset()) | {node}
    fits = node not in job.excluded_nodes and any(name in tiers for name in job.partition.split(","))
    seats = len(nodes | set(job.required_nodes))
    return fits and seats <= max(job.node_count, 1)

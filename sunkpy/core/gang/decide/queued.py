"""Decides for a gang that has no pods on nodes: submits a job, keeps it up to date while it is pending, and binds the
pods when the job starts.
"""

from __future__ import annotations

import msgspec

from sunkpy.core.gang.actions import Bind, Cancel, GangAction, Submit, UpdateExcluded, UpdateTerms, WaitCause, Warn
from sunkpy.core.gang.decide.ending import (
    CANCELLED_BEFORE,
    NO_ANSWER,
    NO_SLOTS_LEFT,
    is_unanswered,
)
from sunkpy.core.gang.decide.members import bindings, find_held, hold, outgrown_by, report_all, start_over, waiting
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.job.job import Job, excluded_by_others
from sunkpy.core.gang.job.phases import JobPhase
from sunkpy.core.gang.job.request import GpuSharing, Policy, counts_gpus, plan_for_nodes, plan_job, plan_terms
from sunkpy.core.gang.job.terms import find_change
from sunkpy.core.gang.snapshot import Snapshot, grace_s
from sunkpy.core.model.matching import pod_requests
from sunkpy.core.placement.eligibility import excluded, explain_eligibility

_UNPROVED = "nothing proves that the job is for this pod: its comment was changed, or slurmctld has not sealed the job"

_BY_COUNT = (
    "Slurm only counts the GPUs of the node, and the device plugin chooses them: the plugin may give the pod a GPU "
    "that Slurm has given to another job there. Whole nodes are safe: "
    'sunkpy.dev/exclusive: "true", or scheduler.gpuSharing: exclusive for all'
)

NEVER_STARTS = {
    "BadConstraints": "no node has the features, cpus, memory and GPUs that the pod asks for",
    "PartitionConfig": "its partition has fewer nodes, cpus or GPUs than the pod asks for, or allows less time",
    "PartitionNodeLimit": "the pod asks for more nodes than its partition allows",
    "PartitionTimeLimit": "the time limit is above that of the partition",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition is inactive",
    "AccountNotAllowed": "the account may not use the partition",
    "QOSNotAllowed": "the QoS may not be used in the partition",
    "InvalidAccount": "the account does not exist or may not be used",
    "InvalidQOS": "the QoS does not exist or may not be used",
    "ReservationDeleted": "the reservation no longer exists",
    "DependencyNeverSatisfied": "a job that it depends on has not ended as it should",
    "JobHeldAdmin": "an administrator holds the job",
    "JobHeldUser": "the job is held until somebody releases it",
    "JobHoldMaxRequeue": "the job was queued again too often, and Slurm holds it",
}
"""Pending reasons (man squeue, JOB REASON CODES) that go away only when a person changes something, or some of them
when a node is added. Each has its meaning for people.
"""


_NEEDS_NODE = ("Resources", "ReqNodeNotAvail", "BadConstraints", "PartitionConfig")
"""Pending reasons of a job that another node would help. PartitionConfig is among them, because Slurm gives it for a
partition that has lost its last node; and ReqNodeNotAvail, because Slurm also gives it for nodes that an autoscaler
could add. Another node does not help a job that waits for a limit, a licence or its turn (`Priority`).
"""
_ASKED_FOR_BY_NODESETS = ("Resources", "ReqNodeNotAvail", "PartitionConfig")
"""Pending reasons for which the status of a growing NodeSet asks autoscalers for nodes. If the job's pods asked as
well, autoscalers would buy twice as many nodes. `BadConstraints` is not among these reasons: Slurm holds such a job,
and only its pods can say what it lacks.
"""


def decide_queued(snapshot: Snapshot, gang: Gang, policy: Policy) -> list[GangAction]:
    """Return the actions for a gang whose pods have no nodes: they submit a job, update or cancel a pending one, bind
    the pods when the job has started, or say why the pods wait.
    """
    warnings: list[GangAction] = [
        Warn(pod=gang.members[0], reason="UnknownAnnotation", note=str(problem))
        for problem in gang.problems
        if not problem.fatal
    ]
    warnings += _warn_of_grace(gang, policy.grace_limit_s(gang))
    jobs = snapshot.live_jobs
    if not jobs:
        return warnings + _submit(snapshot, gang, policy)
    if jobs[0].cancelled_at is not None:
        return [*warnings, *(Cancel(job=job.id, why=CANCELLED_BEFORE) for job in jobs)]
    # The job got the signal to end when its pods had ended, and the gang has new pods since.
    if jobs[0].is_let_go:
        return [*warnings, *(Cancel(job=job.id, why=NO_ANSWER) for job in jobs if is_unanswered(snapshot, job))]
    # If the answer to a submit was lost, the gang can have two jobs: the running one stays, else the oldest.
    job, *others = jobs
    actions = [*warnings, *(Cancel(job=each.id, why=f"job {job.id} is for the same pods") for each in others)]
    if job.is_unproved:
        return [*actions, Cancel(job=job.id, why=_UNPROVED)]
    if job.slurm.tasks and job.is_replacement:
        return [*actions, Cancel(job=job.id, why=NO_SLOTS_LEFT)]
    if job.start_nodes:
        return actions + _start(snapshot, gang, job, policy)
    if job.phase is JobPhase.SUSPENDED:
        return [*actions, Cancel(job=job.id, why="it was suspended before its pods started")]
    if job.phase is JobPhase.PENDING:
        actions += _tend_pending(snapshot, gang, job, policy)
    return actions


def _warn_of_grace(gang: Gang, longest_s: int) -> list[GangAction]:
    """Return a warning for the first pod whose grace period is longer than `longest_s` seconds, the most that it gets
    when its job has lost the node. Empty if there is no such pod.
    """
    pod = next((pod for pod in gang.members if grace_s(pod) > longest_s), None)
    if pod is None:
        return []
    note = (
        f"its grace period is {grace_s(pod):.0f} s, but if its job loses the node, the pod gets only {longest_s} s "
        "(longestGraceSeconds of the Slurm cluster, partition or namespace); then its containers are killed"
    )
    return [Warn(pod=pod, reason="GraceTooLong", note=note)]


def _start(snapshot: Snapshot, gang: Gang, job: Job, policy: Policy) -> list[GangAction]:
    """Return the action that binds all pods at once that have to start together (the first wave), when the job has
    begun on all its nodes. Empty before. The job is cancelled if it does not fit the gang any more. If one of these
    pods is missing, or a scheduling gate holds it, the others get reports.
    """
    if job.start_nodes != job.nodes:
        return []
    if not gang.is_sized:
        return hold(gang)
    if not snapshot.is_for(job):
        return [Cancel(job=job.id, why=_why_not_for(gang, job))]
    if missing := gang.missing:
        held = find_held(gang.first_wave)
        what = f"{missing}; {held[1]}" if held is not None else missing
        return report_all(gang, f"Slurm job {job.id} runs and waits for {what}", WaitCause.MEMBERS)
    # None is missing, so those that are being deleted have been replaced.
    gated = [pod for pod in gang.first_wave if pod.spec.scheduling_gates and not pod.is_deleting]
    if held := find_held(gated) if gated else None:
        return report_all(gang, f"Slurm job {job.id} runs and waits: {held[1]}", WaitCause.GATED)
    binds = bindings(snapshot, gang, job, policy)
    first = {pod.uid for pod in gang.first_wave}
    first_wave = tuple(binds[pod.uid] for pod in waiting(gang) if pod.uid in binds and pod.uid in first)
    if not first_wave:
        return []
    if outgrown := outgrown_by(snapshot, gang, job, policy):
        return start_over(gang, job, outgrown)
    final_because = "" if policy.suspension_of(gang) else gang.final_because
    return [Bind(job=job.id, bindings=first_wave, final_because=final_because)]


def _submit(snapshot: Snapshot, gang: Gang, policy: Policy) -> list[GangAction]:
    # All members get the same text, with one gate only: so they need no write each time another gate is removed.
    there = [pod for pod in gang.members if not pod.is_deleting]
    if gates := sorted({gate.name for pod in there for gate in pod.spec.scheduling_gates}):
        return report_all(gang, f"a pod of its gang is held by scheduling gate {gates[0]}", WaitCause.GATED)
    if gang.refused:
        return report_all(gang, gang.refused, WaitCause.REFUSED)
    if not gang.seats:
        return report_all(gang, "its owner declares no pods", WaitCause.NO_SEATS)
    if snapshot.waits_for:
        return report_all(gang, f"waits for {snapshot.waits_for}", WaitCause.OTHERS_FIRST)
    if missing := gang.missing:
        return report_all(gang, f"waits for {missing}", WaitCause.MEMBERS)
    if not snapshot.may_submit:
        return report_all(gang, snapshot.refused, WaitCause.NOT_SUBMITTED) if snapshot.refused else []
    if snapshot.eligibility is None:
        return []
    if not snapshot.eligibility.eligible:
        is_about_nodes = "" not in snapshot.eligibility.refused
        why = explain_eligibility(snapshot.eligibility)
        return report_all(gang, why, WaitCause.NO_NODE, needs_node=is_about_nodes)
    request = (
        plan_for_nodes(gang, policy, snapshot.named_nodes, kind=None)
        if snapshot.named_nodes
        else plan_job(gang, policy, snapshot.eligibility)
    )
    actions: list[GangAction] = [Submit(request=request, pods=gang.members)]
    firsts = [role.members[0].pod for role in gang.roles if role.members]
    is_by_count = policy.gpu_sharing is GpuSharing.COUNT and not request.whole_nodes
    if is_by_count and any(counts_gpus(pod_requests(pod.spec), policy) for pod in firsts):
        actions.append(Warn(pod=gang.members[0], reason="GpusByCount", note=_BY_COUNT))
    return actions


def _why_not_for(gang: Gang, job: Job) -> str:
    return f"its owner wants {gang.seats} pods now, and the job has {job.slurm.tasks} slots"


def _tend_pending(snapshot: Snapshot, gang: Gang, job: Job, policy: Policy) -> list[GangAction]:
    if gang.is_sized and not snapshot.is_for(job):
        return [Cancel(job=job.id, why=_why_not_for(gang, job))]
    actions: list[GangAction] = []
    where = snapshot.eligibility if snapshot.eligibility is not None and snapshot.eligibility.eligible else None
    # While the gang's size is unknown, so are the rules that keep it together: its nodes stay as they are.
    if gang.is_sized and where is not None:
        wanted = tuple(sorted({*excluded(where), *excluded_by_others(job)}))
        if wanted != job.slurm.excluded_nodes:
            actions.append(UpdateExcluded(job=job.id, excluded=wanted))
    # The gang now asks for something that cannot be done: its job waits on, unchanged.
    if gang.refused:
        return [*actions, *report_all(gang, gang.refused, WaitCause.REFUSED)]
    wants = plan_terms(gang, policy, where, kind=job.kind)
    if where is None and job.spec is not None:  # the features that its nodes must have are not known either
        wants = msgspec.structs.replace(wants, constraint=job.spec.constraint)
    change = find_change(job.spec, wants) if job.spec is not None and wants != job.refused else None
    if change is not None:
        actions.append(UpdateTerms(job=job.id, pod=gang.members[0], change=change))
    if job.slurm.state_reason:
        cure = NEVER_STARTS.get(job.slurm.state_reason)
        partition = f" in partition {job.slurm.partition}" if job.slurm.partition else ""
        message = f"Slurm job {job.id} waits: {job.slurm.state_reason}{partition}" + (f" ({cure})" if cure else "")
        cause = WaitCause.NEVER_STARTS if cure else WaitCause.IN_QUEUE
        actions += report_all(gang, message, cause, needs_node=_needs_node(job, policy))
    return actions


def _needs_node(job: Job, policy: Policy) -> bool:
    """True if the job's pods have to ask autoscalers for a node: another node would help the job, and no NodeSet asks
    the autoscalers for it already.
    """
    reason = job.slurm.state_reason
    is_asked_for = reason in _ASKED_FOR_BY_NODESETS and policy.may_grow(job.slurm.partition)
    return reason in _NEEDS_NODE and not is_asked_for

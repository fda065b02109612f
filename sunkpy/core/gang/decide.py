"""What to do about a gang now. Pure: the same view gives the same actions, and doing them twice does no harm.

Fail closed: a job that could not be read is neither running nor over, and nothing follows from it. A job that Slurm
has proved not to know does not cost a running pod its life either: a new placeholder is submitted for the node that
the pod is on, because the pod holds that node in any case and only a job makes Slurm see it.
"""

from __future__ import annotations

from sunkpy.core.gang.actions import (
    Bind,
    Cancel,
    Cover,
    Evict,
    Finish,
    GangAction,
    Report,
    Submit,
    UpdateExcluded,
    Warn,
)
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.request import Policy, plan_cover, plan_job
from sunkpy.core.gang.view import GangView, JobView, holds_its_node, is_over
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.quantity import BadQuantity
from sunkpy.core.placement.eligibility import excluded, explain_eligibility

_GIVEN_BACK = "it was cancelled before, and Slurm has not ended it yet"

TOLD_PATIENCE_S = 15.0
"""How long a placeholder may take to end by itself after it was told, before it is cancelled."""

DEFAULT_GRACE_S = 30.0
"""What the apiserver gives a pod that does not say."""

NEVER_STARTS = {
    "BadConstraints": "no node has the features, cpus, memory and GPUs that the pod asks for",
    "PartitionConfig": "the pod asks for more nodes or time than its partition allows",
    "PartitionNodeLimit": "the pod asks for more nodes than its partition allows",
    "PartitionTimeLimit": "the time limit is above that of the partition",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition is inactive",
    "AccountNotAllowed": "the account may not use the partition",
    "QOSNotAllowed": "the QoS may not be used in the partition",
    "InvalidAccount": "the account does not exist or may not be used",
    "InvalidQOS": "the QoS does not exist or may not be used",
    "ReservationDeleted": "the reservation no longer exists",
    "JobHeldAdmin": "an administrator holds the job",
    "JobHeldUser": "the job is held; release it with scontrol release",
}
"""Pending reasons (man squeue, JOB REASON CODES) that go away only when a person changes something."""


def decide_gang(view: GangView, policy: Policy) -> list[GangAction]:
    """The actions for a gang, in the order in which to do them."""
    gang = view.gang
    # The pods are gone or finished: what is left is to end the job.
    if gang is None or all(is_over(pod) for pod in gang.members):
        return _end_jobs(view)
    if view.is_bound:
        return _decide_bound(view, gang, policy)
    # Deleted before it was bound: the job in the queue goes at once.
    if all(pod.is_deleting for pod in gang.members):
        return _cancel_all(view.live_jobs, "the pod was deleted")
    return _decide_unbound(view, gang, policy)


def _end_jobs(view: GangView) -> list[GangAction]:
    return [action for job in view.live_jobs for action in _end_job(view, job)]


def _end_job(view: GangView, job: JobView) -> list[GangAction]:
    if view.gang is None:
        return [Cancel(job=job.id, why="the pods are gone")]
    # Only the job that the pods ran under ends with their exit code.
    if job.id != view.bound_to:
        return [Cancel(job=job.id, why="the pods finished under another job")]
    if job.told_s_ago is not None and job.told_s_ago > TOLD_PATIENCE_S:
        return [Cancel(job=job.id, why="the placeholder did not end when it was told")]
    if not job.is_script_running:
        return []
    succeeded = all(pod.status.phase == "Succeeded" for pod in view.pods)
    return [Finish(job=job.id, exit_code=0 if succeeded else 1)]


def _decide_bound(view: GangView, gang: Gang, policy: Policy) -> list[GangAction]:
    job = view.bound_job
    others = tuple(other for other in view.live_jobs if job is None or other.id != job.id)
    if job is None or job.is_lost:
        return _cover_again(view, gang, others, policy)
    actions = _cancel_all(others, f"the pod was bound by job {job.id}")
    if holds_its_node(job) and job.is_cancelled:
        # Slurm may have missed it. The pods that are bound go when it has ended.
        return [*actions, Cancel(job=job.id, why=_GIVEN_BACK)]
    if holds_its_node(job):
        return actions + _bind(view, gang, job)
    pods = [pod for pod in gang.members if pod.spec.node_name and not is_over(pod)]
    actions += [Evict(pod=pod, job=job.id) for pod in pods]
    # A suspended or requeued job would run no epilog for these pods, or start a second time without them.
    if job.is_suspended or job.is_pending:
        actions.append(Cancel(job=job.id, why="its pods cannot be suspended or queued again"))
    return actions


def _cover_again(view: GangView, gang: Gang, others: tuple[JobView, ...], policy: Policy) -> list[GangAction]:
    """The job of bound pods was lost: keep the pods, and let a new job hold their nodes, unless Slurm gave one away."""
    by = next((view.displaced[node] for node in view.placed.values() if node in view.displaced), None)
    if by is not None:
        staying = [pod for pod in gang.members if pod.spec.node_name and not is_over(pod)]
        return [Evict(pod=pod, job=view.bound_to, displaced_by=by) for pod in staying]
    if others and others[0].is_cancelled:
        return _cancel_all(others, _GIVEN_BACK)
    if others:
        covers = [
            Cover(pod=pod, job=others[0].id)
            for pod in gang.members
            if view.placed.get(pod.uid) in others[0].start_nodes
        ]
        return [*covers, *_cancel_all(others[1:], "one job is enough")]
    if not view.may_submit or any(pod.is_deleting for pod in gang.members):
        return []
    pinned = [view.placed.get(pod.uid, "") for pod in gang.members]
    if not all(pinned):
        return []
    request = plan_cover(gang, policy, view.placed)
    note = f"Slurm has lost the job of this pod; the pod keeps running and a new job is submitted for {pinned[0]}"
    return [Warn(pod=gang.members[0], reason="SlurmJobLost", note=note), Submit(request=request, pods=gang.members)]


def _decide_unbound(view: GangView, gang: Gang, policy: Policy) -> list[GangAction]:
    warnings: list[GangAction] = [
        Warn(pod=gang.members[0], reason="UnknownAnnotation", note=str(problem))
        for problem in gang.problems
        if not problem.fatal
    ]
    warnings += [_grace_warning(pod, policy) for pod in gang.members if _grace_s(pod) > policy.epilog_timeout_s]
    jobs = view.live_jobs
    if not jobs:
        return warnings + _submit(view, gang, policy)
    if jobs[0].is_cancelled:
        return warnings + _cancel_all(jobs, _GIVEN_BACK)
    # Two jobs for one gang can come of an answer that was lost: the one that runs, else the oldest, stays.
    actions = warnings + _cancel_all(jobs[1:], f"job {jobs[0].id} is for the same pods")
    job = jobs[0]
    if job.start_nodes:
        return actions + _bind(view, gang, job)
    if job.is_suspended:
        return [*actions, Cancel(job=job.id, why="it was suspended before its pods started")]
    if job.is_pending:
        actions += _tend_pending(view, gang, job)
    return actions


def _grace_s(pod: Pod) -> float:
    grace_s = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_S if grace_s is None else grace_s


def _grace_warning(pod: Pod, policy: Policy) -> Warn:
    note = (
        f"its grace period of {_grace_s(pod):.0f} s is longer than an epilog waits ({policy.epilog_timeout_s:.0f} s, "
        "hooks.epilogTimeoutSeconds of the Slurm cluster): if it uses it up, Slurm drains the node"
    )
    return Warn(pod=pod, reason="GraceTooLong", note=note)


def _bind(view: GangView, gang: Gang, job: JobView) -> list[GangAction]:
    """Members without a node onto the nodes of the job that no member has, in rank order."""
    if len(job.start_nodes) < gang.places:
        return []
    taken = set(view.placed.values())
    free = [node for node in job.start_nodes if node not in taken]
    waiting = [pod for pod in gang.members if not pod.spec.node_name and not pod.is_deleting]
    return [Bind(pod=pod, job=job.id, slurm_node=node) for pod, node in zip(waiting, free, strict=False)]


def _tend_pending(view: GangView, gang: Gang, job: JobView) -> list[GangAction]:
    actions: list[GangAction] = []
    if view.eligibility is not None and view.eligibility.eligible:
        wanted = excluded(view.eligibility)
        if wanted != job.excluded:
            actions.append(UpdateExcluded(job=job.id, excluded=wanted))
    if job.reason:
        cure = NEVER_STARTS.get(job.reason)
        message = f"Slurm job {job.id} waits: {job.reason}" + (f" ({cure})" if cure else "")
        actions += [Report(pod=pod, message=message, is_problem=cure is not None) for pod in gang.members]
    return actions


def _submit(view: GangView, gang: Gang, policy: Policy) -> list[GangAction]:
    if any(pod.spec.scheduling_gates for pod in gang.members) or not gang.is_complete:
        return []
    fatal = [str(problem) for problem in gang.problems if problem.fatal]
    if fatal:
        return _report_all(gang, "; ".join(fatal))
    if not view.may_submit:
        return _report_all(gang, view.refused) if view.refused else []
    if view.eligibility is None:
        return []
    if not view.eligibility.eligible:
        return _report_all(gang, explain_eligibility(view.eligibility))
    try:
        request = plan_job(gang, policy, view.eligibility)
    except BadQuantity as error:
        return _report_all(gang, str(error))
    return [Submit(request=request, pods=gang.members)]


def _report_all(gang: Gang, message: str) -> list[GangAction]:
    return [Report(pod=pod, message=message, is_problem=True) for pod in gang.members]


def _cancel_all(jobs: tuple[JobView, ...], why: str) -> list[GangAction]:
    return [Cancel(job=job.id, why=why) for job in jobs]

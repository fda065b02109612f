"""What to do about a gang now. Pure: the same view gives the same actions, and doing them twice does no harm.

Fail closed: a job that could not be read is neither running nor over, and nothing follows from it. A job that Slurm
has proved not to know does not cost a running pod its life either: a new placeholder is submitted for the node that
the pod is on, because the pod holds that node in any case and only a job makes Slurm see it. Members that have no node
then are set apart: each waits for a job of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from sunkpy.core.gang.actions import (
    Bind,
    BindDirectly,
    Binding,
    Cancel,
    Cover,
    Evict,
    Finish,
    GangAction,
    NoteDevices,
    Report,
    SetApart,
    Submit,
    UpdateExcluded,
    UpdateTerms,
    WaitCause,
    Warn,
)
from sunkpy.core.gang.devices import assign_devices, noted_on
from sunkpy.core.gang.gang import Gang, Suspension
from sunkpy.core.gang.grace import bounded, warn_of_grace
from sunkpy.core.gang.outcome import has_succeeded
from sunkpy.core.gang.places import explain_missing
from sunkpy.core.gang.request import Policy, plan_cover, plan_job, plan_terms
from sunkpy.core.gang.room import Sitting, find_outgrown
from sunkpy.core.gang.terms import find_change
from sunkpy.core.gang.view import GangView, JobView, holds_its_node, is_over
from sunkpy.core.model import matching
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.quantity import BadQuantity
from sunkpy.core.placement.eligibility import excluded, explain_eligibility

_DEAF = "the placeholder did not end when it was told"
_COVERED = "the pods that it covered have ended, and it has no room for others"
_RUNS_AGAIN = "it had ended on a node, and slurmctld has forgotten that"
_NO_SCRIPT = "its pods have ended, and an allocation has no script that could end by itself"
_UNPROVED = "nothing proves that it is this pod's: its comment was changed, or slurmctld has not sealed it"
_GIVEN_BACK = "it was cancelled before, and Slurm has not ended it yet"

IDLE_PATIENCE_S = 120.0
"""How long a job holds its nodes for pods that do not come."""

TOLD_PATIENCE_S = 15.0
"""How long a placeholder may take to end by itself after it was told, before it is cancelled."""

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
    "DependencyNeverSatisfied": "a job that it depends on has not ended as it should",
    "JobHeldAdmin": "an administrator holds the job",
    "JobHeldUser": "the job is held; release it with scontrol release",
}
"""Pending reasons (man squeue, JOB REASON CODES) that go away only when a person changes something."""


def decide_gang(view: GangView, policy: Policy) -> list[GangAction]:
    """The actions for a gang, in the order in which to do them."""
    gang = view.gang
    if gang is not None and gang.never_queues:
        return _bind_directly(gang)
    # Whatever becomes of the pods: nobody else ends a job that Slurm takes for running where nothing of it is.
    return [*_cancel_all(tuple(job for job in view.jobs if job.runs_again), _RUNS_AGAIN), *_decide_queued(view, policy)]


def _decide_queued(view: GangView, policy: Policy) -> list[GangAction]:
    gang = view.gang
    # The pods are gone or finished: what is left is to end the job.
    if gang is None or all(is_over(pod) for pod in gang.members):
        return _end_jobs(view)
    if view.is_bound:
        return _decide_bound(view, gang, policy)
    # Deleted before they were bound: the job in the queue goes at once.
    if all(pod.is_deleting or is_over(pod) for pod in gang.members):
        return _cancel_all(view.live_jobs, "the pod was deleted")
    return _decide_unbound(view, gang, policy)


def _bind_directly(gang: Gang) -> list[GangAction]:
    """Each pod onto the node that its affinity names: Slurm has no say in it."""
    actions: list[GangAction] = []
    for pod in _unbound(gang):
        node = matching.named_node(pod.spec)
        if node:
            actions.append(BindDirectly(pod=pod, node=node))
        else:
            why = "its node affinity names no node (matchFields metadata.name), so it cannot be bound without a job"
            actions.append(Report(pod=pod, message=why, is_problem=True, cause=WaitCause.NO_NAMED_NODE))
    return actions


def _end_jobs(view: GangView) -> list[GangAction]:
    return [action for job in view.live_jobs for action in _end_job(view, job)]


def _end_job(view: GangView, job: JobView) -> list[GangAction]:
    if view.gang is None:
        return [Cancel(job=job.id, why="the pods are gone")]
    # Only the job that the pods ran under ends with their exit code.
    if job.id != view.bound_to:
        return [Cancel(job=job.id, why="the pods finished under another job")]
    if job.told_s_ago is not None and job.told_s_ago > TOLD_PATIENCE_S:
        return [Cancel(job=job.id, why=_DEAF)]
    # Its owner will make more pods for these places.
    if view.gang.expects_more and not job.is_let_go and view.idle_s < IDLE_PATIENCE_S:
        return []
    if job.is_allocation:
        return [Cancel(job=job.id, why=_NO_SCRIPT)]
    if not job.is_script_running:
        return []
    return [Finish(job=job.id, exit_code=0 if has_succeeded(view.gang) else 1)]


def _decide_bound(view: GangView, gang: Gang, policy: Policy) -> list[GangAction]:
    job = view.bound_job
    others = tuple(other for other in view.live_jobs if job is None or other.id != job.id)
    if job is None or job.is_lost:
        return _cover_again(view, gang, others, policy)
    actions = _cancel_all(others, f"the pod was bound by job {job.id}")
    if holds_its_node(job) and job.is_cancelled:
        # Slurm may have missed it. The pods that are bound go when it has ended.
        return [*actions, Cancel(job=job.id, why=_GIVEN_BACK)]
    if holds_its_node(job) and not view.holding and job.tasks and view.covers_only(job):
        return [*actions, Cancel(job=job.id, why=_COVERED)]
    if holds_its_node(job):
        return [
            *actions,
            *_strays(view, gang, job),
            *_note_devices(view, gang, job, policy),
            *_take_places(view, gang, job, policy),
        ]
    suspension = _suspension(gang, policy)
    actions += _tell_to_go([Evict(pod=pod, job=job.id, suspension=suspension) for pod in _staying(view, gang)], policy)
    # A suspended or requeued job would run no epilog for these pods, or start a second time without them.
    if job.is_suspended or job.is_pending:
        actions.append(Cancel(job=job.id, why="its pods cannot be suspended or queued again"))
    return actions


def _tell_to_go(evictions: Iterable[Evict], policy: Policy) -> list[GangAction]:
    """Each with a bounded grace; first those that go already, so that the others are told together."""
    told = [bounded(eviction, policy.longest_grace_s) for eviction in evictions]
    return sorted(told, key=lambda action: isinstance(action, Evict))


def _cover_again(view: GangView, gang: Gang, others: tuple[JobView, ...], policy: Policy) -> list[GangAction]:
    """The job of bound pods was lost: keep the pods, and let a new job hold their nodes, unless Slurm gave one away."""
    staying, holding = _staying(view, gang), view.holding
    lost_to = next((node for node in holding.values() if node in view.displaced), None)
    if lost_to is not None:
        by = view.displaced[lost_to]
        return _tell_to_go(
            [Evict(pod=pod, job=view.bound_to, displaced_by=by, given_away=lost_to) for pod in staying], policy
        )
    # A single pod that goes needs no cover any more; of several one may go while the others stay.
    nodes = {pod.uid: holding[pod.uid] for pod in staying if not pod.is_deleting}
    if others and others[0].is_cancelled:
        return _cancel_all(others, _GIVEN_BACK)
    if others and others[0].is_suspended:
        return _cancel_all(others, "it was suspended before it held the nodes of its pods")
    if others and others[0].is_pending and nodes and set(others[0].required) - set(nodes.values()):
        return _cancel_all(others, "it waits for a node on which no pod of the gang is any more")
    if others and others[0].nodes and all(holding.values()) and not {*others[0].nodes} & {*holding.values()}:
        return _cancel_all(others, "it has none of the nodes on which pods of the gang are")
    if others:
        covers = [Cover(pod=p, job=others[0].id) for p in staying if view.placed.get(p.uid) in others[0].start_nodes]
        return [*covers, *_cancel_all(others[1:], "one job is enough")]
    if not view.may_submit or not nodes or not all(nodes.values()):
        return []
    request = plan_cover(gang, policy, nodes)
    where = ", ".join(request.required_nodes)
    note = f"Slurm has lost the job of this pod; the pod keeps running and a new job is submitted for {where}"
    return [Warn(pod=staying[0], reason="SlurmJobLost", note=note), Submit(request=request, pods=tuple(staying))]


def _strays(view: GangView, gang: Gang, job: JobView) -> list[GangAction]:
    """Members on nodes that their gang's job does not have: it gave them up, or each had a job of its own, which Slurm
    has forgotten.
    """
    if not view.is_several or not job.is_script_running or not job.nodes:
        return []
    holding, theirs = view.holding, {"", *job.nodes}
    return [SetApart(pod=pod) for pod in gang.members if holding.get(pod.uid, "") not in theirs]


def _staying(view: GangView, gang: Gang) -> list[Pod]:
    """Members that have a node and have not ended."""
    holding = view.holding
    return [pod for pod in gang.members if pod.uid in holding]


def _unbound(gang: Gang) -> list[Pod]:
    """Members that may be given a node: none is on its way out, or held behind a scheduling gate."""
    return [
        pod
        for pod in gang.members
        if not (pod.spec.node_name or pod.is_deleting or pod.is_finished or pod.spec.scheduling_gates)
    ]


def _decide_unbound(view: GangView, gang: Gang, policy: Policy) -> list[GangAction]:
    warnings: list[GangAction] = [
        Warn(pod=gang.members[0], reason="UnknownAnnotation", note=str(problem))
        for problem in gang.problems
        if not problem.fatal
    ]
    warnings += [warning for pod in gang.members if (warning := warn_of_grace(pod, policy.longest_grace_s))][:1]
    jobs = view.live_jobs
    if not jobs:
        return warnings + _submit(view, gang, policy)
    if jobs[0].is_cancelled:
        return warnings + _cancel_all(jobs, _GIVEN_BACK)
    # It was told to end when the pods of its places had ended, and others have come since.
    if jobs[0].is_let_go:
        return warnings + _cancel_all(tuple(j for j in jobs if (j.told_s_ago or 0.0) > TOLD_PATIENCE_S), _DEAF)
    # Two jobs for one gang can come of an answer that was lost: the one that runs, else the oldest, stays.
    actions = warnings + _cancel_all(jobs[1:], f"job {jobs[0].id} is for the same pods")
    job = jobs[0]
    if job.is_unproved:
        return [*actions, Cancel(job=job.id, why=_UNPROVED)]
    if job.tasks and view.covers_only(job):
        return [*actions, Cancel(job=job.id, why=_COVERED)]
    if job.start_nodes:
        return actions + _start(view, gang, job, policy)
    if job.is_suspended:
        return [*actions, Cancel(job=job.id, why="it was suspended before its pods started")]
    if job.is_pending:
        actions += _tend_pending(view, gang, job, policy)
    return actions


def _start(view: GangView, gang: Gang, job: JobView, policy: Policy) -> list[GangAction]:
    """All members of the first wave at once, when the job has begun on all its nodes."""
    if not view.has_started(job):
        return []
    if not gang.is_sized:
        return _hold(view, gang, job)
    if not _is_for(view, gang, job):
        return [Cancel(job=job.id, why=_declared_anew(gang, job))]
    if missing := explain_missing(gang):
        if view.idle_s >= IDLE_PATIENCE_S:
            return [Cancel(job=job.id, why=f"it waited {IDLE_PATIENCE_S:.0f} s for {missing}")]
        return _tell_all(gang, f"Slurm job {job.id} runs and waits for {missing}", WaitCause.MEMBERS)
    bind = _bindings(view, gang, job, policy)
    first = {pod.uid for pod in gang.first_wave}
    bindings = tuple(bind[pod.uid] for pod in _unbound(gang) if pod.uid in bind and pod.uid in first)
    if not bindings or any(pod.spec.scheduling_gates for pod in gang.members):
        return []
    if outgrown := _outgrown(view, gang, job, policy):
        return _start_over(gang, job, outgrown)
    final_because = "" if _suspension(gang, policy) else gang.final_because
    return [Bind(job=job.id, bindings=bindings, final_because=final_because)]


def _hold(view: GangView, gang: Gang, job: JobView) -> list[GangAction]:
    """Nobody can tell now who belongs on its nodes; for a while it keeps them."""
    if view.idle_s >= IDLE_PATIENCE_S:
        return [Cancel(job=job.id, why=f"for {IDLE_PATIENCE_S:.0f} s nobody could tell whom it is for: {gang.refused}")]
    return _report_all(gang, gang.refused, WaitCause.REFUSED)


def _suspension(gang: Gang, policy: Policy) -> Suspension | None:
    """How the owner is suspended when the gang is preempted, if that is wished, possible and allowed."""
    return gang.suspension if policy.suspend_owners and gang.options.on_preemption == "suspend" else None


def _take_places(view: GangView, gang: Gang, job: JobView, policy: Policy) -> list[GangAction]:
    """Members of later waves, and those that came in the stead of others, one by one: the nodes are the job's."""
    waiting = _unbound(gang)
    if not gang.is_sized:
        return _hold(view, gang, job)
    if not waiting:
        return []
    bindings, actions = _bindings(view, gang, job, policy), list[GangAction]()
    # As long as the first wave is not whole, one that is refused gives everything back.
    is_whole = not view.is_half_bound
    outgrown = _outgrown(view, gang, job, policy)
    if outgrown and not (is_whole and view.holding):
        return _start_over(gang, job, outgrown)
    has_no_room = bool(job.tasks) and _has_no_room(view, gang, job)
    for pod in waiting:
        if pod.uid in outgrown:
            actions += [SetApart(pod=pod), _too_large(pod, job, f"{outgrown[pod.uid]}: it gets a job of its own")]
        elif binding := bindings.get(pod.uid):
            actions.append(Bind(job=job.id, bindings=(binding,), gives_back=not is_whole))
        elif has_no_room:
            actions.append(SetApart(pod=pod))
        else:
            message = f"all its places in Slurm job {job.id} are taken: it waits until one is left"
            actions.append(Report(pod=pod, message=message, is_problem=False, cause=WaitCause.PLACES_TAKEN))
    return actions


def _has_no_room(view: GangView, gang: Gang, job: JobView) -> bool:
    """Who has no seat will not have one: the job was made for others, or for fewer than there are places now."""
    has_fewer = job.tasks < gang.places and not all(view.places(job).values())
    return view.covers_only(job) or ((view.is_cover(job) or has_fewer) and not _is_any_leaving(gang))


def _outgrown(view: GangView, gang: Gang, job: JobView, policy: Policy) -> dict[str, str]:
    """Members that wait and ask for more than the job has at their places, by uid, and what is lacking."""
    if not job.room or not _unbound(gang):
        return {}
    sits = Sitting(holding=view.holding, seats=view.seats(job), places=view.places(job))
    return find_outgrown(gang, sits, job.room, gpu_resources=policy.gpu_resources)


def _start_over(gang: Gang, job: JobView, outgrown: Mapping[str, str]) -> list[GangAction]:
    """Give the job back: nobody depends on it, and the next one is made for the pods as they are now."""
    pod = next(pod for pod in gang.members if pod.uid in outgrown)
    why = f"{outgrown[pod.uid]}: it is cancelled, and another one is submitted"
    return [Cancel(job=job.id, why=f"pod {pod.name} {outgrown[pod.uid]}"), _too_large(pod, job, why)]


def _too_large(pod: Pod, job: JobView, why: str) -> Warn:
    note = f"it asks for more than its place in Slurm job {job.id} was made for, and {why}"
    return Warn(pod=pod, reason="AsksForMore", note=note)


def _is_any_leaving(gang: Gang) -> bool:
    """A place may soon be free."""
    return any(pod.is_deleting and not is_over(pod) for pod in gang.members)


def _note_devices(view: GangView, gang: Gang, job: JobView, policy: Policy) -> list[GangAction]:
    """On members that run: Slurm may tell late, and a job in the place of a lost one may have other devices."""
    holding = view.holding
    bound = [pod for pod in gang.members if holding.get(pod.uid) in job.devices and not pod.is_deleting]
    if not bound:
        return []
    seats = view.seats(job)
    gpus = assign_devices(gang, seats, job.devices, gpu_resources=policy.gpu_resources)
    right = ((pod, gpus.get(pod.uid, "")) for pod in bound if pod.uid in seats)
    return [NoteDevices(pod=pod, gpus=text) for pod, text in right if text != noted_on(pod)]


def _bindings(view: GangView, gang: Gang, job: JobView, policy: Policy) -> dict[str, Binding]:
    """For each member that has a seat, by uid."""
    seats = view.seats(job)
    gpus = assign_devices(gang, seats, job.devices, gpu_resources=policy.gpu_resources)
    return {
        pod.uid: Binding(
            pod=pod,
            slurm_node=seats[pod.uid].node,
            place=seats[pod.uid].note if gang.places > 1 else "",
            gpus=gpus.get(pod.uid, ""),
        )
        for pod in gang.members
        if pod.uid in seats
    }


def _is_for(view: GangView, gang: Gang, job: JobView) -> bool:
    """The job has as many slots as the gang wants now, as far as Slurm has told."""
    if view.pins and not explain_missing(gang):
        return not job.tasks or job.tasks == len(set(view.pins.values()))
    return bool(view.pins) or view.may_be_for(job)


def _declared_anew(gang: Gang, job: JobView) -> str:
    return f"its owner wants {gang.places} pods now, and the job has {job.tasks} slots"


def _tend_pending(view: GangView, gang: Gang, job: JobView, policy: Policy) -> list[GangAction]:
    if gang.is_sized and not _is_for(view, gang, job):
        return [Cancel(job=job.id, why=_declared_anew(gang, job))]
    actions: list[GangAction] = []
    # What keeps a gang in one place is not known either while nobody can tell what it looks like.
    if gang.is_sized and view.eligibility is not None and view.eligibility.eligible:
        wanted = excluded(view.eligibility)
        if wanted != job.excluded:
            actions.append(UpdateExcluded(job=job.id, excluded=wanted))
    # What was asked for since cannot be used: the job waits on, as it was.
    if gang.refused:
        return [*actions, *_report_all(gang, gang.refused, WaitCause.REFUSED)]
    is_known = view.eligibility is not None and bool(view.eligibility.eligible)
    wants = plan_terms(gang, policy, view.eligibility if is_known else None)
    if not is_known and job.terms is not None:  # nor is it known which features its nodes must have
        wants = msgspec.structs.replace(wants, constraint=job.terms.constraint)
    change = find_change(job.terms, wants) if job.terms is not None and wants != job.refused_terms else None
    if change is not None:
        actions.append(UpdateTerms(job=job.id, pod=gang.members[0], change=change))
    if job.reason:
        cure = NEVER_STARTS.get(job.reason)
        message = f"Slurm job {job.id} waits: {job.reason}" + (f" ({cure})" if cure else "")
        if cure is not None:
            actions += _report_all(gang, message, WaitCause.NEVER_STARTS)
        else:
            actions += _tell_all(gang, message, WaitCause.IN_QUEUE)
    return actions


def _submit(view: GangView, gang: Gang, policy: Policy) -> list[GangAction]:
    if any(pod.spec.scheduling_gates for pod in gang.members):
        return []
    if gang.refused:
        return _report_all(gang, gang.refused, WaitCause.REFUSED)
    if not gang.places:
        return _report_all(gang, "its owner declares no pods", WaitCause.NO_PLACES)
    if view.waits_for:
        return _tell_all(gang, f"waits for {view.waits_for}", WaitCause.OTHERS_FIRST)
    if missing := explain_missing(gang):
        return _tell_all(gang, f"waits for {missing}", WaitCause.MEMBERS)
    if not view.may_submit:
        return _report_all(gang, view.refused, WaitCause.NOT_SUBMITTED) if view.refused else []
    if view.eligibility is None:
        return []
    if not view.eligibility.eligible:
        return _report_all(gang, explain_eligibility(view.eligibility), WaitCause.NO_NODE)
    try:
        request = plan_cover(gang, policy, view.pins) if view.pins else plan_job(gang, policy, view.eligibility)
    except BadQuantity as error:
        return _report_all(gang, str(error), WaitCause.BAD_QUANTITY)
    return [Submit(request=request, pods=gang.members)]


def _report_all(gang: Gang, message: str, cause: WaitCause) -> list[GangAction]:
    return [Report(pod=pod, message=message, is_problem=True, cause=cause) for pod in _unbound(gang)]


def _tell_all(gang: Gang, message: str, cause: WaitCause) -> list[GangAction]:
    return [Report(pod=pod, message=message, is_problem=False, cause=cause) for pod in _unbound(gang)]


def _cancel_all(jobs: tuple[JobView, ...], why: str) -> list[GangAction]:
    return [Cancel(job=job.id, why=why) for job in jobs]

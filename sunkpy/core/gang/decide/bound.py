"""Decides for a gang that has pods on nodes, while Slurm still knows the job under which they were bound.

While the job holds its nodes, the pods stay, and pods of the gang without a node get the free slots of the job. A job
loses its nodes when it is preempted, requeued or suspended, and when it ends in any way. Then the pods are evicted, and
a job that Slurm may start again is cancelled.
"""

from __future__ import annotations

from sunkpy.core import names
from sunkpy.core.gang.actions import (
    Bind,
    Cancel,
    Evict,
    GangAction,
    IfRefused,
    MakeSolo,
    NoteDevices,
    Report,
    WaitCause,
)
from sunkpy.core.gang.decide.ending import CANCELLED_BEFORE, NO_SLOTS_LEFT, evict_all
from sunkpy.core.gang.decide.members import (
    bindings,
    hold,
    outgrown_by,
    start_over,
    too_large,
    wait_for_node,
    waiting,
)
from sunkpy.core.gang.devices.asked import claim_names
from sunkpy.core.gang.devices.indices import assign_devices, noted_on
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.job.ends import DEVICES_LOST, JOB_LOST, EndCause
from sunkpy.core.gang.job.job import Job
from sunkpy.core.gang.job.phases import HOLDING, STOPPED
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.phases import PodPhase, pod_phase
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.objects import Pod

SEAT_PATIENCE_S = 30.0
"""For how many seconds the scheduler tries to bind a pod to a node that refuses it, while other pods of the gang have
their nodes.
"""


def decide_bound(snapshot: Snapshot, gang: Gang, job: Job, policy: Policy) -> list[GangAction]:
    """Return the actions for a gang whose pods were bound to nodes under `job`, which Slurm still knows."""
    why = f"the pod was bound by job {job.id}"
    actions: list[GangAction] = [Cancel(job=each.id, why=why) for each in snapshot.live_jobs if each.id != job.id]
    if job.phase not in HOLDING:
        return actions + _hand_over(snapshot, gang, job, policy)
    if job.cancelled_at is not None:
        # Slurm may have missed the order. Bound pods are evicted when the job has ended.
        return [*actions, Cancel(job=job.id, why=CANCELLED_BEFORE)]
    if not snapshot.holding and job.slurm.tasks and job.is_replacement:
        return [*actions, Cancel(job=job.id, why=NO_SLOTS_LEFT)]
    if snapshot.lost_devices:
        return actions + _leave_devices(snapshot, gang, job, policy)
    strays, devices = _strays(snapshot, gang, job), _note_devices(snapshot, gang, job, policy)
    return [*actions, *strays, *devices, *_take_seats(snapshot, gang, job, policy)]


def _hand_over(snapshot: Snapshot, gang: Gang, job: Job, policy: Policy) -> list[GangAction]:
    """Return the actions for a gang whose job has lost its nodes: its pods are evicted (or their owner is suspended),
    and a job that Slurm has suspended or queued again is cancelled.
    """
    suspension = policy.suspension_of(gang)
    actions = evict_all([Evict(pod=pod, job=job.id, suspension=suspension) for pod in snapshot.staying], gang, policy)
    # A suspended job runs no Epilog for these pods, and a requeued one starts a second time without them.
    if job.phase in STOPPED:
        actions.append(Cancel(job=job.id, why="its pods cannot be suspended or queued again"))
    return actions


def _leave_devices(snapshot: Snapshot, gang: Gang, job: Job, policy: Policy) -> list[GangAction]:
    """Return the evictions of the pods whose devices may belong to other pods by now (`Snapshot.lost_devices`). The job
    keeps the devices until these pods are gone.
    """
    going = [(pod, snapshot.lost_devices[pod.uid]) for pod in snapshot.staying if pod.uid in snapshot.lost_devices]
    causes = [(pod, EndCause(reason=DEVICES_LOST, message=why)) for pod, why in going]
    return evict_all([Evict(pod=pod, job=job.id, cause=cause) for pod, cause in causes], gang, policy)


def _strays(snapshot: Snapshot, gang: Gang, job: Job) -> list[GangAction]:
    """Return actions that give a gang of its own to each pod on a node that the gang's job does not have: the job gave
    the node up, or Slurm has forgotten a job that the pod had for itself.
    """
    if not snapshot.is_several or not job.is_script_running or not job.nodes:
        return []
    holding, theirs = snapshot.holding, {"", *job.nodes}
    return [MakeSolo(pod=pod) for pod in gang.members if holding.get(pod.uid, "") not in theirs]


def _note_devices(snapshot: Snapshot, gang: Gang, job: Job, policy: Policy) -> list[GangAction]:
    """Return actions that correct the annotation of GPU indices on bound pods: Slurm may report the devices of the job
    late, and a replacement job may have other devices.

    Devices of claims, and those that sunkpy's device plugin hands out, cannot change while a pod runs, and Slurm may
    give the pod's old devices to other jobs. So a pod with such devices is evicted if the job has other indices for it
    now.
    """
    holding = snapshot.holding
    bound = [pod for pod in gang.members if holding.get(pod.uid) in job.slurm.devices and not pod.is_deleting]
    # The number of devices in a claim is unknown until the claim was read.
    bound = [pod for pod in bound if not claim_names(pod) or pod.uid in snapshot.reserved]
    if not bound:
        return []
    seats = snapshot.seating(job).seats
    gpus = assign_devices(gang, seats, job.slurm.devices, gpu_resources=policy.gpu_resources)
    right = ((pod, gpus.get(pod.uid, "")) for pod in bound if pod.uid in seats)
    wrong = [(pod, text) for pod, text in right if text != noted_on(pod)]
    going = [pod for pod, text in wrong if _is_given_one_by_one(pod) and text and noted_on(pod)]
    why = f"Slurm lost the job of this pod, and job {job.id} has other devices"
    cause = EndCause(reason=JOB_LOST, message=why)
    evictions = evict_all([Evict(pod=pod, job=job.id, cause=cause) for pod in going], gang, policy)
    return [*(NoteDevices(pod=pod, gpus=text) for pod, text in wrong if pod not in going), *evictions]


def _take_seats(snapshot: Snapshot, gang: Gang, job: Job, policy: Policy) -> list[GangAction]:
    """Return actions for the pods that still wait for a node while others of the gang have nodes: pods that the owner
    made later, and pods that replace others. Each is bound by itself, because the job has their nodes already. A pod
    for which the job has no room becomes a gang of its own, or waits until a seat (room for one pod) is free.
    """
    if not gang.is_sized:
        return hold(gang)
    late = waiting(gang)
    if not late:
        return []
    binds, actions = bindings(snapshot, gang, job, policy), list[GangAction]()
    # While the first wave is not fully bound, the job is cancelled if a node refuses one of its pods.
    is_whole = not snapshot.is_half_bound
    outgrown = outgrown_by(snapshot, gang, job, policy)
    if outgrown and not (is_whole and snapshot.holding):
        return start_over(gang, job, outgrown)
    gets_no_seat = bool(job.slurm.tasks) and _gets_no_seat(snapshot, gang, job)
    for pod in late:
        if pod.uid in outgrown:
            actions += [MakeSolo(pod=pod), too_large(pod, job, f"{outgrown[pod.uid]}. The pod gets a job of its own")]
        elif binding := binds.get(pod.uid):
            waits = wait_for_node(snapshot, pod)
            actions.append(waits or Bind(job=job.id, bindings=(binding,), if_refused=_if_refused(snapshot, gang, pod)))
        elif gets_no_seat:
            actions.append(MakeSolo(pod=pod))
        else:
            message = f"Slurm job {job.id} has no free place for this pod: the pod waits until one is free"
            actions.append(Report(pod=pod, message=message, cause=WaitCause.SEATS_TAKEN))
    return actions


def _if_refused(snapshot: Snapshot, gang: Gang, pod: Pod) -> IfRefused:
    """Return what to do if the node refuses this pod, which is bound after the pods that started together: cancel the
    gang's job, try the node again, or make the pod a gang of its own.
    """
    refusal = snapshot.refusals.get(pod.uid)
    if snapshot.is_half_bound or (refusal is not None and not snapshot.holding):
        return IfRefused.GIVE_BACK
    # A pod that names this node cannot go to another.
    if refusal is None or pod.uid in snapshot.named_nodes or snapshot.now - refusal.since < SEAT_PATIENCE_S:
        return IfRefused.WAIT
    return IfRefused.GIVE_BACK if gang.one_domain else IfRefused.GO_SOLO


def _gets_no_seat(snapshot: Snapshot, gang: Gang, job: Job) -> bool:
    """True if a pod that now has no seat (room in the job) will never get one under this job. Either the job is a
    replacement, made only for pods that had nodes when their job was lost; or it has fewer slots than the gang needs,
    and no pod of the gang is about to leave.
    """
    if job.is_replacement:
        return True
    has_fewer = job.slurm.tasks < gang.seats and not all(snapshot.seating(job).nodes.values())
    # A member that is being deleted may soon free its seat.
    return has_fewer and not any(pod_phase(pod) is PodPhase.STOPPING for pod in gang.members)


def _is_given_one_by_one(pod: Pod) -> bool:
    return bool(claim_names(pod)) or names.ANNOTATION_DEVICES in pod.annotations

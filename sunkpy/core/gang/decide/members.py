"""Pods of a gang that wait for a node: which pods these are, which conditions and Events they get, to which nodes they
are bound, and when a job that has nodes for them waits no longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sunkpy.core.gang.actions import (
    Bind,
    BindDirectly,
    Binding,
    Cancel,
    FreeDevices,
    GangAction,
    MakeSolo,
    Report,
    WaitCause,
    Warn,
)
from sunkpy.core.gang.decide.ending import IDLE_PATIENCE_S
from sunkpy.core.gang.devices.indices import assign_devices
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.identity import BindingNote
from sunkpy.core.gang.job.job import Job
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.phases import PodPhase, pod_phase
from sunkpy.core.gang.seating.fits import find_outgrown
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model import matching
from sunkpy.core.model.objects import Pod


def waiting(gang: Gang) -> list[Pod]:
    """Return the pods of the gang that may be given a node: they have none, they are not being deleted, and no
    scheduling gate holds them.
    """
    return [pod for pod in gang.members if pod_phase(pod) is PodPhase.WAITING and not pod.spec.scheduling_gates]


def free_devices(snapshot: Snapshot, gang: Gang) -> list[GangAction]:
    """Return actions that release the devices reserved by the claims of pods without a node: the pods' job was
    cancelled, or a binding was interrupted. Empty while a job of the gang has nodes on which its pods are about to be
    bound.
    """
    if any(job.start_nodes and job.cancelled_at is None and not job.is_let_go for job in snapshot.live_jobs):
        return []
    return [FreeDevices(pod=pod) for pod in gang.members if pod.uid in snapshot.reserved and not pod.spec.node_name]


def report_all(gang: Gang, message: str, cause: WaitCause, *, needs_node: bool = False) -> list[GangAction]:
    """Return, for each pod of the gang that waits for a node, an action that sets a condition on the pod: `message`
    says why the pod waits.
    """
    return [Report(pod=pod, message=message, cause=cause, needs_node=needs_node) for pod in waiting(gang)]


def wait_for_node(snapshot: Snapshot, pod: Pod) -> Report | None:
    """Return a report that says why the pod's node refused the pod, as long as the next try has to wait. None if no
    node has refused the pod, or the node is to be tried again now.
    """
    refusal = snapshot.refusals.get(pod.uid)
    if refusal is None or snapshot.now >= refusal.again_at:
        return None
    return Report(pod=pod, message=refusal.why, cause=WaitCause.KUBELET)


def bind_directly(snapshot: Snapshot, gang: Gang) -> list[GangAction]:
    """Return actions that bind each waiting pod of a DaemonSet to the node that its affinity names, without Slurm. A
    pod that cannot be bound now gets a report that says why.
    """
    actions: list[GangAction] = []
    for pod in waiting(gang):
        node = matching.named_node(pod.spec)
        if waits := wait_for_node(snapshot, pod):
            actions.append(waits)
        elif node:
            actions.append(BindDirectly(pod=pod, node=node))
        else:
            why = "its node affinity names no node (matchFields metadata.name), so it cannot be bound without a job"
            actions.append(Report(pod=pod, message=why, cause=WaitCause.NO_NAMED_NODE))
    return actions


def bindings(snapshot: Snapshot, gang: Gang, job: Job, policy: Policy) -> dict[str, Binding]:
    """Return, for each pod that has a seat (its room) in the job, the pod with the annotations to write when it is
    bound. The key is the pod's uid.
    """
    seats, devices = snapshot.seating(job).seats, job.slurm.devices
    gpus = assign_devices(gang, seats, devices, gpu_resources=policy.gpu_resources) if devices else {}
    notes = {
        uid: BindingNote(
            job=job.id,
            gang=gang.id,
            slurm_node=seat.node,
            seat=seat.note if gang.seats > 1 else "",
            devices=gpus.get(uid, ""),
        )
        for uid, seat in seats.items()
    }
    return {pod.uid: Binding(pod=pod, note=notes[pod.uid]) for pod in gang.members if pod.uid in notes}


def outgrown_by(snapshot: Snapshot, gang: Gang, job: Job, policy: Policy) -> dict[str, str]:
    """Return the waiting pods that ask for more than the job has for them on the node of their seat: pod uid → what is
    lacking there. Empty if Slurm has not reported what the job has.
    """
    if not job.slurm.capacity or not waiting(gang):
        return {}
    return find_outgrown(gang, snapshot.seating(job), job.slurm.capacity, gpu_resources=policy.gpu_resources)


def start_over(gang: Gang, job: Job, outgrown: Mapping[str, str]) -> list[GangAction]:
    """Return actions that cancel the job and warn, because a pod asks for more than the job has for it. After that, a
    job is submitted for the pods as they are now. `outgrown`: pod uid → what is lacking.
    """
    pod = next(pod for pod in gang.members if pod.uid in outgrown)
    why = f"{outgrown[pod.uid]}. Job {job.id} is cancelled, and one for the pods as they are now is submitted"
    return [Cancel(job=job.id, why=f"pod {pod.name} {outgrown[pod.uid]}"), too_large(pod, job, why)]


def too_large(pod: Pod, job: Job, why: str) -> Warn:
    """Return a warning that the pod asks for more than the job has for it at its seat; `why` says what is lacking and
    what is done.
    """
    note = f"the pod asks for more than its part of Slurm job {job.id} has: this part {why}"
    return Warn(pod=pod, reason="AsksForMore", note=note)


def hold(gang: Gang) -> list[GangAction]:
    """Return reports that say why the pods wait. This is for a gang of unknown size: nobody knows which pods belong on
    the nodes of its job, so no pod is bound, and the job is kept for a while (`give_back`).
    """
    return report_all(gang, gang.refused, WaitCause.REFUSED)


def find_held(pods: Iterable[Pod]) -> tuple[Pod, str] | None:
    """Return the first of the pods that exists and cannot be bound: a scheduling gate holds it, or it is deleted and a
    finalizer keeps it. The text says what holds it, and who can change that. None if there is no such pod.
    """
    for pod in pods:
        gates, finalizers = pod.spec.scheduling_gates, pod.metadata.finalizers
        phase = pod_phase(pod)
        if phase is PodPhase.WAITING and gates:
            why = f"scheduling gate {gates[0].name} holds pod {pod.name}: whoever set the gate has to remove it"
            return pod, f"{why}; if nobody does, delete the pod"
        if phase is PodPhase.STOPPING and finalizers and not pod.spec.node_name:
            why = f"finalizer {finalizers[0]} keeps pod {pod.name}, which is deleted"
            return pod, f"{why}: whoever set the finalizer has to remove it; if nobody does, remove it yourself"
    return None


def give_back(snapshot: Snapshot, gang: Gang, actions: list[GangAction]) -> list[GangAction]:
    """Return the actions for a gang whose job has held its nodes for `IDLE_PATIENCE_S` seconds with no pod on them.
    `actions`: what was decided about the gang otherwise. The job is cancelled, unless one of them gives a pod a node or
    takes a pod out of the gang. If something holds a pod of the gang, a warning on this pod says what.
    """
    going = {action.job for action in actions if isinstance(action, Cancel)}
    staying = [job for job in snapshot.live_jobs if job.id not in going]
    idle = [job for job in staying if job.is_ready]
    if snapshot.holding or not idle or any(map(gets_on, actions)):
        return actions
    held = find_held(gang.members)
    why = "; ".join(filter(None, (gang.refused, gang.missing, held[1] if held is not None else "")))
    why = why or "none of its pods can be bound"
    left: list[GangAction] = [action for action in actions if not isinstance(action, Report)]
    for job in idle:
        left.append(Cancel(job=job.id, why=f"for {IDLE_PATIENCE_S:.0f} s no pod was on its nodes: {why}"))
        if held is not None:
            note = (
                f"for {IDLE_PATIENCE_S:.0f} s Slurm job {job.id} had its nodes and no pod on them, so it is cancelled"
            )
            left.append(Warn(pod=held[0], reason="FailedScheduling", note=f"{note}: {why}"))
    return left


def gets_on(action: GangAction) -> bool:
    """True if the action gives a pod a node, waits until a node takes the pod, or takes the pod out of the gang."""
    return isinstance(action, Bind | MakeSolo) or (isinstance(action, Report) and action.cause is WaitCause.KUBELET)

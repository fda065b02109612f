"""Pods of a gang that wait for a node: which pods these are, which conditions and Events they get, and to which nodes
they are bound.
"""

from __future__ import annotations

from collections.abc import Mapping

from sunkpy.core.gang.actions import (
    BindDirectly,
    Binding,
    Cancel,
    FreeDevices,
    GangAction,
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


def hold(snapshot: Snapshot, gang: Gang, job: Job) -> list[GangAction]:
    """Return reports that say why the pods wait. This is for a gang of unknown size: nobody knows which pods belong on
    the nodes of its job, so no pod is bound, and the job is kept. Once the job has held nodes for `IDLE_PATIENCE_S`
    seconds with no pod on them, return an action that cancels the job.
    """
    if snapshot.idle_s >= IDLE_PATIENCE_S:
        return [
            Cancel(
                job=job.id,
                why=f"for {IDLE_PATIENCE_S:.0f} s nobody could tell for which pods the job is: {gang.refused}",
            )
        ]
    return report_all(gang, gang.refused, WaitCause.REFUSED)

"""Members that wait for a node: which they are, which conditions and Events they get, and to which nodes they are
bound.
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
    """Return the members that may be given a node: they have none, are not being deleted, and no scheduling gate holds
    them.
    """
    return [pod for pod in gang.members if pod_phase(pod) is PodPhase.WAITING and not pod.spec.scheduling_gates]


def free_devices(snapshot: Snapshot, gang: Gang) -> list[GangAction]:
    """Return actions that release claimed devices of members that are not about to be bound: their job was given back,
    or a pass was interrupted.
    """
    if any(job.start_nodes and job.cancelled_at is None and not job.is_let_go for job in snapshot.live_jobs):
        return []
    return [FreeDevices(pod=pod) for pod in gang.members if pod.uid in snapshot.reserved and not pod.spec.node_name]


def report_all(gang: Gang, message: str, cause: WaitCause, *, needs_node: bool = False) -> list[GangAction]:
    """Return a report for each waiting member that says why it waits."""
    return [Report(pod=pod, message=message, cause=cause, needs_node=needs_node) for pod in waiting(gang)]


def wait_for_node(snapshot: Snapshot, pod: Pod) -> Report | None:
    """Return a report that the pod's node has just refused it; None if that node is to be tried now."""
    refusal = snapshot.refusals.get(pod.uid)
    if refusal is None or snapshot.now >= refusal.again_at:
        return None
    return Report(pod=pod, message=refusal.why, cause=WaitCause.KUBELET)


def bind_directly(snapshot: Snapshot, gang: Gang) -> list[GangAction]:
    """Return actions that bind each pod of a DaemonSet to the node that its affinity names, without Slurm."""
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
    """Return the binding of each member that has a seat, by uid."""
    seats = snapshot.seating(job).seats
    gpus = assign_devices(gang, seats, job.slurm.devices, gpu_resources=policy.gpu_resources)
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
    """Return, by uid, what each waiting member lacks that asks for more than the job has at its seat."""
    if not job.slurm.capacity or not waiting(gang):
        return {}
    return find_outgrown(gang, snapshot.seating(job), job.slurm.capacity, gpu_resources=policy.gpu_resources)


def start_over(gang: Gang, job: Job, outgrown: Mapping[str, str]) -> list[GangAction]:
    """Cancel the job, because a member asks for more than its seat has. The next pass submits a job for the pods as
    they are now.
    """
    pod = next(pod for pod in gang.members if pod.uid in outgrown)
    why = f"{outgrown[pod.uid]}. Job {job.id} is cancelled, and one for the pods as they are now is submitted"
    return [Cancel(job=job.id, why=f"pod {pod.name} {outgrown[pod.uid]}"), too_large(pod, job, why)]


def too_large(pod: Pod, job: Job, why: str) -> Warn:
    """Return a warning that the pod asks for more than its seat in the job has."""
    note = f"the pod asks for more than its seat in Slurm job {job.id} has: it {why}"
    return Warn(pod=pod, reason="AsksForMore", note=note)


def hold(snapshot: Snapshot, gang: Gang, job: Job) -> list[GangAction]:
    """Keep the job for a while, because it is unknown which pods belong on its nodes; cancel it after
    `IDLE_PATIENCE_S`.
    """
    if snapshot.idle_s >= IDLE_PATIENCE_S:
        return [
            Cancel(job=job.id, why=f"for {IDLE_PATIENCE_S:.0f} s it was not known for which pods it is: {gang.refused}")
        ]
    return report_all(gang, gang.refused, WaitCause.REFUSED)

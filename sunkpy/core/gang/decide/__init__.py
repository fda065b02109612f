"""Decides what to do about a gang now. This is pure: the same snapshot gives the same actions, and repeating the
actions does no harm.

If Slurm cannot be read, jobs keep the state in which they were last seen, so that alone leads to no action. If Slurm
has proved that it does not know a job, the running pods of that job stay all the same: `lost_job`.

1. A pod of a DaemonSet that needs no job (`families.daemon_set`) is bound to the node that it names.
2. `ending`: all pods are gone or finished, so their job ends.
3. `bound`: some pods have nodes, and Slurm knows their job. The pods stay as long as the job holds these nodes, and are
   evicted when the job loses them. Pods without a node are bound one by one.
4. `lost_job`: some pods have nodes, and Slurm has lost their job, or they never had one. A job is submitted for exactly
   these nodes.
5. `queued`: no pod has a node. A job is submitted and kept up to date while it is pending. When it starts, its pods are
   bound.
6. `members.give_back`: the job has had its nodes for some time, and no pod came there. It is cancelled.
"""

from __future__ import annotations

from sunkpy.core.gang.actions import Cancel, GangAction
from sunkpy.core.gang.decide.bound import decide_bound
from sunkpy.core.gang.decide.ending import IDLE_PATIENCE_S, end_jobs
from sunkpy.core.gang.decide.lost_job import decide_lost
from sunkpy.core.gang.decide.members import bind_directly, free_devices, give_back
from sunkpy.core.gang.decide.queued import decide_queued
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.phases import is_over
from sunkpy.core.gang.snapshot import Snapshot

_RUNS_AGAIN = "it had ended on a node, and slurmctld has forgotten that"


def decide_gang(snapshot: Snapshot, policy: Policy) -> list[GangAction]:
    """Return the actions for a gang in its present state, in the order in which the scheduler has to execute them."""
    gang = snapshot.gang
    # 1. Pods of a DaemonSet.
    if gang is not None and gang.never_queues:
        return bind_directly(snapshot, gang)
    # Slurm says that such a job runs, although it has ended on a node. Nobody else would cancel it, whatever becomes of
    # the pods.
    actions: list[GangAction] = [Cancel(job=job.id, why=_RUNS_AGAIN) for job in snapshot.jobs if job.runs_again]
    # 2. The pods are gone or finished: what is left is to end the job.
    if gang is None or all(is_over(pod) for pod in gang.members):
        return actions + end_jobs(snapshot)
    if snapshot.is_bound:
        job = snapshot.bound_job
        # 4. Their job was lost.
        if job is None or job.is_lost:
            return actions + decide_lost(snapshot, gang, policy)
        # 3. Their job is there.
        actions += decide_bound(snapshot, gang, job, policy)
    elif all(pod.is_deleting or is_over(pod) for pod in gang.members):
        # The pods were deleted before they were bound: cancel the pending job at once.
        return actions + [Cancel(job=job.id, why="the pod was deleted") for job in snapshot.live_jobs]
    else:
        # 5. No pod has a node.
        actions += free_devices(snapshot, gang) + decide_queued(snapshot, gang, policy)
    # 6. No pod came to the nodes of the job.
    return actions if snapshot.idle_s < IDLE_PATIENCE_S else give_back(snapshot, gang, actions)

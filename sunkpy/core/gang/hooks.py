"""What the Prolog or the Epilog of a job has to wait for on its node, if anything.

A Prolog may end once the job's pods on the node are bound, or will never be bound under this job. An Epilog may end
once no pod of the job is left on the node: until then Slurm keeps the node COMPLETING, and no other job starts there.
An Epilog may also end if its job was lost (Slurm forgot it, or its node failed), or if another job of the gang holds
the node for these pods.

Slurm forgets an Epilog that was interrupted (slurmd restarted, node DOWN). So on a node that may have pods, the Prolog
of every job also asks the *gate*, a check before the job starts. The gate lets a job start once each pod of a gang that
is left on the node belongs to a job that still holds the node.
"""

from __future__ import annotations

from collections.abc import Container

from sunkpy.core.gang.job.job import has_node
from sunkpy.core.gang.phases import has_left_node, is_over
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId


def prologs_wait_for(snapshot: Snapshot, job: JobId) -> dict[str, str]:
    """Return, for each Slurm node of `job`, the pods for which the Prolog there must wait, in words. Nodes whose Prolog
    may end are left out; that is every node if the job has ended, was lost, or is being ended by sunkpy. All nodes are
    answered at once, because finding the seats of a large gang is slow.

    A Prolog waits until those pods of the gang's first wave (the pods that start together) that belong on its node are
    bound. It does not wait for pods that do not exist yet: when these are made, the job is running already.
    """
    own = next((known for known in snapshot.jobs if known.id == job), None)
    if own is None or not own.is_live or own.is_let_go:
        return {}
    first = snapshot.gang.first_wave if snapshot.gang is not None else ()
    waiting = [pod for pod in first if not is_over(pod) and not pod.spec.node_name and not pod.is_deleting]
    seats = snapshot.seating(own).seats if waiting else {}
    on: dict[str, list[Pod]] = {}
    for pod in waiting:
        if pod.uid in seats:
            on.setdefault(seats[pod.uid].node, []).append(pod)
    return {node: f"pod {_names(pods)} is not bound yet" for node, pods in on.items()}


def epilog_waits_for(snapshot: Snapshot, job: JobId, slurm_node: str) -> str | None:
    """Return, in words, which pods of the gang are still on a node, so that the Epilog of `job` must wait there. None
    if no pod is left, or another job of the gang holds the node for the pods.
    """
    if is_covered_by_another(snapshot, job, slurm_node):
        return None
    left = [pod for pod in snapshot.pods if snapshot.placed.get(pod.uid) == slurm_node and not has_left_node(pod)]
    return f"pod {_names(left)} is not gone yet" if left else None


def epilog_keeps_pods(snapshot: Snapshot, job: JobId) -> bool:
    """True if the pods run under `job`, and the job was lost: its node failed, or Slurm forgot the job. Its Epilog may
    then end while the pods stay on the node, so the gate (the check before other jobs start there) must go on watching
    these pods.
    """
    own = snapshot.bound_job
    return own is not None and own.id == job and own.is_lost


def gate_waits_for(
    snapshot: Snapshot, job: JobId, slurm_node: str, *, told_of: Container[JobId] | None = None, is_own: bool = True
) -> str | None:
    """Return, in words, which pods of this gang must leave a node before `job` may start there; Slurm has given the
    node to `job`. None if this gang does not keep the job from starting.

    `told_of`: the jobs in Slurm's newest answer; a job of the gang that is missing there holds no node. None: Slurm was
    not asked yet. `is_own`: False if `job` does not belong to this gang. It may still have the id of one of the gang's
    jobs: slurmctld was killed, has forgotten the gang's job, and has used its id again.
    """
    if snapshot.gang is not None and snapshot.gang.never_queues:
        return None
    own = snapshot.bound_job
    # A job that Slurm has forgotten does not count: another job may have got its id.
    if is_own and any(known.id == job and known.is_live for known in snapshot.jobs):
        return None
    is_told = own is not None and own.id != job and (told_of is None or own.id in told_of)
    if own is not None and is_told and not own.is_lost and has_node(own, slurm_node):
        return None
    left = [pod for pod in snapshot.pods if snapshot.placed.get(pod.uid) == slurm_node and not has_left_node(pod)]
    return f"pod {_names(left)} of an earlier job is not gone yet" if left else None


def is_covered_by_another(snapshot: Snapshot, job: JobId, slurm_node: str) -> bool:
    """True if the gang's pods run under another job than `job`, and that other job has started and holds this node."""
    own = snapshot.bound_job
    return own is not None and own.id != job and own.is_script_running and has_node(own, slurm_node)


def _names(pods: list[Pod]) -> str:
    return ", ".join(f"{pod.metadata.namespace}/{pod.name}" for pod in pods)

"""What a Prolog or Epilog of a job has to wait for on its node, if anything.

A Prolog may end once the job's pods on the node are bound, or never will be under this job. An Epilog may end only when
no pod of the job is left on the node: until then Slurm keeps the node COMPLETING, and no other job starts there. Slurm
forgets an Epilog that was interrupted (slurmd restarted, node DOWN). So every job's Prolog also asks the *gate*, on a
node that may have pods: it opens once no pod is left there whose own job no longer holds the node.
"""

from __future__ import annotations

from collections.abc import Container

from sunkpy.core.gang.job.job import has_node
from sunkpy.core.gang.phases import has_left_node, is_over
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId


def prologs_wait_for(snapshot: Snapshot, job: JobId) -> dict[str, str]:
    """Return for each Slurm node of `job` what its Prolog waits for there; nodes whose Prolog may end are left out. All
    nodes are answered at once, because finding the seats of a large gang is slow.

    A Prolog waits for existing members of the first wave that have their seat on its node. It does not wait for a seat
    without a pod: a pod that comes later finds the job running.
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
    """Return which pods the Epilog of `job` on a node waits for, in words; None if it may end."""
    if is_covered_by_another(snapshot, job, slurm_node):
        return None
    left = [pod for pod in snapshot.pods if snapshot.placed.get(pod.uid) == slurm_node and not has_left_node(pod)]
    return f"pod {_names(left)} is not gone yet" if left else None


def epilog_keeps_pods(snapshot: Snapshot, job: JobId) -> bool:
    """True if the job was lost and has not ended: its pods stay on the node, so the gate has to keep watching them."""
    own = snapshot.bound_job
    return own is not None and own.id == job and own.is_lost


def gate_waits_for(
    snapshot: Snapshot, job: JobId, slurm_node: str, *, told_of: Container[JobId] | None = None, is_own: bool = True
) -> str | None:
    """Return which pods of this gang `job` must wait for on a node that Slurm has given it, in words; None if it may
    start.

    `told_of`: the jobs in Slurm's newest answer; a job that is missing there holds no node. None: Slurm was not asked
    yet. `is_own`: False if the job with the id of the gang's job is another one. Then slurmctld was killed, has
    forgotten the gang's job, and has used its id again.
    """
    if snapshot.gang is not None and snapshot.gang.never_queues:
        return None
    own = snapshot.bound_job
    # A job that Slurm forgot does not pass: another job may have got its id.
    if is_own and any(known.id == job and known.is_live for known in snapshot.jobs):
        return None
    is_told = own is not None and own.id != job and (told_of is None or own.id in told_of)
    if own is not None and is_told and not own.is_lost and has_node(own, slurm_node):
        return None
    left = [pod for pod in snapshot.pods if snapshot.placed.get(pod.uid) == slurm_node and not has_left_node(pod)]
    return f"pod {_names(left)} of an earlier job is not gone yet" if left else None


def is_covered_by_another(snapshot: Snapshot, job: JobId, slurm_node: str) -> bool:
    """True if the members run under another job than `job`, and that other job has this node."""
    own = snapshot.bound_job
    return own is not None and own.id != job and own.is_script_running and has_node(own, slurm_node)


def _names(pods: list[Pod]) -> str:
    return ", ".join(f"{pod.metadata.namespace}/{pod.name}" for pod in pods)

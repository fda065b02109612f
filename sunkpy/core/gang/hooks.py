"""What to answer to the prolog and the epilog of a job: that it may end, or what it has to wait for.

The prolog may end when the pods are bound or never will be under this job. The epilog may end only when no pod of the
job is left on the node: until then Slurm keeps the node COMPLETING, and nothing can overlap. Slurm forgets an epilog
that was cut short (slurmd restarted, node DOWN), so the prolog of every job asks the *gate* as well, on a node to which
placeholder jobs may have brought pods: it opens when none is left there whose own job no longer holds the node.
"""

from __future__ import annotations

from collections.abc import Container

from sunkpy.core.gang.job.job import has_node
from sunkpy.core.gang.phases import has_left_node, is_over
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId


def prologs_wait_for(snapshot: Snapshot, job: JobId) -> dict[str, str]:
    """For each Slurm node, what the prolog of `job` waits for there. All nodes are answered at once, because it takes
    long in large gangs to find out which pod has which seat.

    Each waits for members of the first wave that are there and have their seat on its node. A seat without a pod
    keeps nobody: the pod that comes for it later finds the job running.
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
    """What the epilog of `job` on a node waits for; None when it may end."""
    if is_covered_by_another(snapshot, job, slurm_node):
        return None
    left = [pod for pod in snapshot.pods if snapshot.placed.get(pod.uid) == slurm_node and not has_left_node(pod)]
    return f"pod {_names(left)} is not gone yet" if left else None


def epilog_keeps_pods(snapshot: Snapshot, job: JobId) -> bool:
    """True if the job was lost and has not ended: its pods stay on the node, and the gate must go on watching them."""
    own = snapshot.bound_job
    return own is not None and own.id == job and own.is_lost


def gate_waits_for(
    snapshot: Snapshot, job: JobId, slurm_node: str, *, told_of: Container[JobId] | None = None, is_own: bool = True
) -> str | None:
    """What `job`, which Slurm has given the node, waits for in one gang that has a pod there; None if it waits for
    nothing.

    `told_of`: the jobs in Slurm's answer of just now; a job that is not in it holds nothing. None: not asked yet.
    `is_own`: the job says that it is the gang's. A different job with the id of the gang's job proves that slurmctld
    was killed, has forgotten the gang's job, and has used the id again.
    """
    if snapshot.gang is not None and snapshot.gang.never_queues:
        return None
    own = snapshot.bound_job
    # Not one that Slurm forgot: then the caller may be somebody else under the same id.
    if is_own and any(known.id == job and known.is_live for known in snapshot.jobs):
        return None
    is_told = own is not None and own.id != job and (told_of is None or own.id in told_of)
    if own is not None and is_told and not own.is_lost and has_node(own, slurm_node):
        return None
    left = [pod for pod in snapshot.pods if snapshot.placed.get(pod.uid) == slurm_node and not has_left_node(pod)]
    return f"pod {_names(left)} of an earlier job is not gone yet" if left else None


def is_covered_by_another(snapshot: Snapshot, job: JobId, slurm_node: str) -> bool:
    """True if the pods run under another job than `job`, and that job has this node."""
    own = snapshot.bound_job
    return own is not None and own.id != job and own.is_script_running and has_node(own, slurm_node)


def _names(pods: list[Pod]) -> str:
    return ", ".join(f"{pod.metadata.namespace}/{pod.name}" for pod in pods)

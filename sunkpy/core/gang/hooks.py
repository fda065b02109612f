"""What to answer to the prolog and the epilog of a job: that they may end, or what they wait for.

The prolog may end when the pods are bound or never will be under this job. The epilog may end only when no pod of the
job is left on the node: until then Slurm keeps the node COMPLETING, and nothing can overlap. Slurm forgets an epilog
that was cut short (slurmd restarted, node DOWN), so the prolog of every job asks the *gate* as well, on a node to which
placeholder jobs may have brought pods: it opens when none is left there whose own job no longer holds the node.
"""

from __future__ import annotations

from collections.abc import Container

from sunkpy.core.gang.view import GangView, has_left_node, holds_its_node, is_over
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId


def prolog_waits_for(view: GangView, job: JobId, slurm_node: str) -> str | None:
    """What the prolog of `job` on a node waits for; None when it may end.

    It waits for members of the first wave that are there and have their place on this node. A place without a pod keeps
    nobody: the pod that comes for it later finds the job running.
    """
    own = next((known for known in view.jobs if known.id == job), None)
    if own is None or not own.is_live or own.is_let_go:
        return None
    first = view.gang.first_wave if view.gang is not None else ()
    waiting = [pod for pod in first if not is_over(pod) and not pod.spec.node_name and not pod.is_deleting]
    if len(waiting) > 1 or (view.gang is not None and view.gang.places > 1):
        seats = view.seats(own)
        waiting = [pod for pod in waiting if pod.uid in seats and seats[pod.uid].node == slurm_node]
    return f"pod {_names(waiting)} is not bound yet" if waiting else None


def epilog_waits_for(view: GangView, job: JobId, slurm_node: str) -> str | None:
    """What the epilog of `job` on a node waits for; None when it may end."""
    if is_covered_by_another(view, job):
        return None
    left = [pod for pod in view.pods if view.placed.get(pod.uid) == slurm_node and not has_left_node(pod)]
    return f"pod {_names(left)} is not gone yet" if left else None


def epilog_keeps_pods(view: GangView, job: JobId) -> bool:
    """The job was lost and not ended: its pods stay on the node, and the gate must go on watching them."""
    own = view.bound_job
    return own is not None and own.id == job and own.is_lost


def gate_waits_for(
    view: GangView, job: JobId, slurm_node: str, *, told_of: Container[JobId] | None = None
) -> str | None:
    """What `job`, which has been given the node, waits for in one gang that has a pod there; None when nothing.

    `told_of`: the jobs of which Slurm has just told; one that it did not mention holds nothing. None: not asked yet.
    """
    if view.gang is not None and view.gang.never_queues:
        return None
    own = view.bound_job
    # Not one that Slurm forgot: it counts anew then, and the caller may be somebody else under the same id.
    is_own_gang = any(known.id == job and known.is_live for known in view.jobs)
    if is_own_gang:
        return None
    is_told = own is not None and (told_of is None or own.id in told_of)
    if own is not None and is_told and not own.is_lost and holds_its_node(own):
        return None
    left = [pod for pod in view.pods if view.placed.get(pod.uid) == slurm_node and not has_left_node(pod)]
    return f"pod {_names(left)} of an earlier job is not gone yet" if left else None


def is_covered_by_another(view: GangView, job: JobId) -> bool:
    """The pods run under a job other than `job`, and that one holds their node."""
    own = view.bound_job
    return own is not None and own.id != job and own.is_script_running and holds_its_node(own)


def _names(pods: list[Pod]) -> str:
    return ", ".join(f"{pod.metadata.namespace}/{pod.name}" for pod in pods)

"""What to answer to the prolog and the epilog of a job: that they may end, or what they wait for.

The prolog may end when the pods are bound or never will be under this job. The epilog may end only when no pod of the
job is left on the node: until then Slurm keeps the node COMPLETING, and nothing can overlap.
"""

from __future__ import annotations

from sunkpy.core.gang.view import GangView, has_left_node, holds_its_node, is_over
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId


def prolog_waits_for(view: GangView, job: JobId) -> str | None:
    """What the prolog of `job` waits for; None when it may end."""
    own = next((known for known in view.jobs if known.id == job), None)
    if own is None or not own.is_live:
        return None
    waiting = [pod for pod in view.pods if not is_over(pod) and not pod.spec.node_name and not pod.is_deleting]
    return f"pod {_names(waiting)} is not bound yet" if waiting else None


def epilog_waits_for(view: GangView, job: JobId, slurm_node: str) -> str | None:
    """What the epilog of `job` on a node waits for; None when it may end."""
    if is_covered_by_another(view, job):
        return None
    left = [pod for pod in view.pods if view.placed.get(pod.uid) == slurm_node and not has_left_node(pod)]
    return f"pod {_names(left)} is not gone yet" if left else None


def is_covered_by_another(view: GangView, job: JobId) -> bool:
    """The pods run under a job other than `job`, and that one holds their node."""
    own = view.bound_job
    return own is not None and own.id != job and own.is_script_running and holds_its_node(own)


def _names(pods: list[Pod]) -> str:
    return ", ".join(f"{pod.metadata.namespace}/{pod.name}" for pod in pods)

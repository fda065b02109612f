"""Explains pods that are in no gang of this scheduler, or whose gang is not known."""

from __future__ import annotations

from collections.abc import Collection

from sunkpy.core.explain.explanation import Explanation, Line
from sunkpy.core.gang.binding_note import noted_job
from sunkpy.core.gang.owners import Above, Absence, explain_absence
from sunkpy.core.model.objects import Pod


def absent(kind: str, namespace: str, name: str) -> Explanation:
    """There is no object of that name; `kind`: Pod, Gang, NodeSet or Node. Without a namespace there is none in any."""
    several = {"NodeSet": "nodesets", "Node": "nodes"}.get(kind, "pods")
    everywhere = f"get {several}" if kind == "Node" else f"get {several} -A"
    where = f"-n {namespace} get {several}" if namespace else everywhere
    return Explanation(
        subject=f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}",
        standing="does not exist",
        what_to_do=f"See what there is: kubectl {where}.",
        is_absent=True,
    )


def ambiguous(kind: str, name: str, namespaces: Collection[str]) -> Explanation:
    """Objects of that name are in several namespaces, and none is named."""
    return Explanation(
        subject=f"{kind} {name}",
        standing=f"is in the namespaces {', '.join(sorted(namespaces))}",
        what_to_do="Name one with -n.",
        is_absent=True,
    )


def unfindable(kind: str, name: str, unread: tuple[str, ...]) -> Explanation:
    """Whether there is an object of that name is not known; `unread`: what could not be read."""
    return Explanation(
        subject=f"{kind} {name}",
        standing="cannot be looked for",
        lines=(Line(title="not read", texts=unread),),
        what_to_do="Ask as somebody who may read this.",
    )


def foreign(pod: Pod, scheduler_names: Collection[str]) -> Explanation:
    """The pod names another scheduler."""
    other = pod.spec.scheduler_name or "default-scheduler"
    ours = " or ".join(sorted(scheduler_names))
    if pod.spec.node_name and (job := noted_job(pod)) is not None:
        return Explanation(
            subject=_subject(pod),
            standing=f"was bound under Slurm job {job} by a scheduler of another name",
            lines=(Line(title="scheduler", texts=(other,)),),
            what_to_do=(
                "Unless another Slurm cluster has that name, nobody evicts the pod when Slurm takes its node: "
                f"add {other} to scheduler.aliases."
            ),
        )
    return Explanation(
        subject=_subject(pod),
        standing="is not for Slurm",
        lines=(Line(title="scheduler", texts=(other,)),),
        what_to_do=f"For Slurm to schedule it, set schedulerName: {ours} in its template; a pod keeps its scheduler.",
    )


def unplaced(pod: Pod, above: Above, *, unreadable: str = "") -> Explanation:
    """The gang of the pod is not known; `unreadable`: why its owner's kind cannot be read."""
    cures = {
        Absence.UNREADABLE: "Install the CRD, or give the right: scheduler.extraRules of the Slurm cluster.",
        Absence.GONE: "Make the object that it names, or delete the pod.",
        Absence.UNKNOWN: "Nothing; it is looked up again automatically.",
    }
    return Explanation(
        subject=_subject(pod),
        standing="waits: its gang is not known",
        lines=(Line(title="because", texts=(explain_absence(above, unreadable=unreadable),)),),
        what_to_do=cures[above.absence],
    )


def _subject(pod: Pod) -> str:
    return f"Pod {'/'.join(pod.key)}"

"""Explains names that no object has, and pods that belong to no known gang of this scheduler."""

from __future__ import annotations

from collections.abc import Collection

from sunkpy.core.explain.explanation import Explanation, Line
from sunkpy.core.explain.missing_rights import how_to_read
from sunkpy.core.gang.identity import noted_job
from sunkpy.core.gang.owners import Above, Absence, explain_absence
from sunkpy.core.model.objects import Pod


def absent(kind: str, namespace: str, name: str, *, elsewhere: Collection[str] = (), command: str = "") -> Explanation:
    """Return the answer that no object has this name. `kind`: Pod, Gang, NodeSet or Node.

    An empty `namespace` means that no namespace has such an object. `elsewhere`: other namespaces with an object of
    this name; the person is told to repeat `command` there.
    """
    if elsewhere:
        first, *others = sorted(elsewhere)
        have = f"namespaces {', '.join((first, *others))} have" if others else f"namespace {first} has"
        return Explanation(
            subject=f"{kind} {namespace}/{name}",
            standing=f"does not exist; {have} one of that name",
            what_to_do=f"Ask there: {command} -n {first}",
            is_absent=True,
        )
    several = {"NodeSet": "nodesets", "Node": "nodes"}.get(kind, "pods")
    everywhere = f"get {several}" if kind == "Node" else f"get {several} -A"
    where = f"-n {namespace} get {several}" if namespace else everywhere
    return Explanation(
        subject=f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}",
        standing="does not exist",
        what_to_do=f"See what there is: kubectl {where}",
        is_absent=True,
    )


def ambiguous(kind: str, name: str, namespaces: Collection[str], *, command: str) -> Explanation:
    """Return the answer that objects in several namespaces have this name. `command`: what the person has to repeat
    with one of the namespaces.
    """
    first, *_ = listed = sorted(namespaces)
    return Explanation(
        subject=f"{kind} {name}",
        standing=f"is in the namespaces {', '.join(listed)}",
        what_to_do=f"Name one: {command} -n {first}",
        is_absent=True,
    )


def not_in_cluster(name: str, namespace: str, *, elsewhere: Collection[str], command: str) -> Explanation:
    """Return the answer that a node belongs to another Slurm cluster than the one in `namespace`.

    `elsewhere`: the namespaces of the clusters that have the node. `command`: the command with which the person asked.
    """
    first, *others = sorted(elsewhere)
    return Explanation(
        subject=f"Node {name}",
        standing=(
            f"is no node of the Slurm cluster in namespace {namespace}, but of the one in {', '.join((first, *others))}"
        ),
        what_to_do=f"Ask there: {command} -n {first}",
        is_absent=True,
    )


def without_slurmd(name: str, nodesets: Collection[tuple[str, str]]) -> Explanation:
    """Return the answer that a Kubernetes node has no slurmd pod. `nodesets`: namespace and name of each NodeSet."""
    namespace, nodeset = min(nodesets, default=("NAMESPACE", "NODESET"))
    return Explanation(
        subject=f"Node {name}",
        standing="has no slurmd pod, so it is not a Slurm node",
        what_to_do=f"See why a NodeSet does not take it: kubectl sunk explain nodeset {nodeset} -n {namespace}",
        is_absent=True,
    )


def unfindable(kind: str, name: str, unread: tuple[str, ...]) -> Explanation:
    """Return the answer that the object could not be looked up. `unread`: what could not be read, and why."""
    return Explanation(
        subject=f"{kind} {name}",
        standing="could not be looked up",
        lines=(Line(title="not read", texts=unread),),
        what_to_do=how_to_read(unread),
    )


def foreign(pod: Pod, scheduler_names: Collection[str]) -> Explanation:
    """Return the answer for a pod whose scheduler is none of `scheduler_names`: it is not for this Slurm cluster, or it
    was bound under a job by a scheduler of another name.
    """
    other = pod.spec.scheduler_name or "default-scheduler"
    ours = " or ".join(sorted(scheduler_names))
    if pod.spec.node_name and (job := noted_job(pod)) is not None:
        return Explanation(
            subject=_subject(pod),
            standing=f"was bound under Slurm job {job} by a scheduler of another name",
            lines=(Line(title="scheduler", texts=(other,)),),
            what_to_do=(
                f"If no scheduler of a Slurm cluster has the name {other} any more, nobody evicts the pod when Slurm "
                "takes its node: then add this name to scheduler.aliases, by helm upgrade of chart slurm"
            ),
        )
    return Explanation(
        subject=_subject(pod),
        standing="is not for Slurm",
        lines=(Line(title="scheduler", texts=(other,)),),
        what_to_do=(
            f"For Slurm to schedule it, set schedulerName: {ours} in its template; a pod keeps its scheduler. To see "
            f"who made it: kubectl -n {pod.metadata.namespace} describe pod {pod.name}"
        ),
    )


def unplaced(pod: Pod, above: Above, *, unreadable: str = "") -> Explanation:
    """Return the answer for a pod whose gang is not known, because an owner of the pod is missing or was not read.
    `unreadable`: why the owner's kind cannot be read.
    """
    cures = {
        Absence.UNREADABLE: (
            "Install the CRD, or give the scheduler the right to read it: scheduler.extraRules of chart slurm. To see "
            "which kinds exist: kubectl api-resources"
        ),
        Absence.GONE: (
            "Create the owner that the pod names, or delete the pod: "
            f"kubectl -n {pod.metadata.namespace} delete pod {pod.name}"
        ),
        Absence.UNKNOWN: "Nothing: the scheduler looks it up again by itself.",
    }
    return Explanation(
        subject=_subject(pod),
        standing="waits: its gang is not known",
        lines=(Line(title="because", texts=(explain_absence(above, unreadable=unreadable),)),),
        what_to_do=cures[above.absence],
    )


def _subject(pod: Pod) -> str:
    return f"Pod {'/'.join(pod.key)}"

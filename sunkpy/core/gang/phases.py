"""The phases of a pod and the states of a gang. They are never stored: one function derives the phase of a pod, another
one the state of a gang.

Each question about pods, such as whether a pod holds its node, is a set of phases in which the answer is yes
(`POD_PREDICATES`). `tools/make-reference` makes the table in `docs/reference/phases.md` from this module.
"""

from __future__ import annotations

import enum
from typing import Final, Self

from sunkpy.core.model.objects import Pod


class Phase(enum.Enum):
    """The base class of enums for the phases in the life of a pod, a job or a gang. `value` is the name of the phase,
    and `means` is a sentence that says when something is in this phase.
    """

    means: str

    def __new__(cls, value: str, means: str) -> Self:
        """Make an enum member with this value; `means` is the sentence that explains the member."""
        member = object.__new__(cls)
        member._value_, member.means = value, means
        return member


class PodPhase(Phase):
    """The phases in the life of a workload's pod, as sunkpy tells them apart."""

    WAITING = ("waiting", "the pod has no node yet")
    BOUND = ("bound", "the pod has a node, and none of its containers runs")
    RUNNING = ("running", "a container of the pod runs")
    STOPPING = ("stopping", "the pod is being deleted, and the kubelet has not yet reported that it finished")
    OVER = (
        "over",
        "the pod's containers have ended and the pod is being deleted; the kubelet may still hold its volumes "
        "and cgroups",
    )
    GONE = ("gone", "the pod has finished, and the kubelet holds nothing of it on the node any more")


OVER: Final = frozenset({PodPhase.OVER, PodPhase.GONE})
HOLDS_NODE: Final = frozenset(PodPhase) - OVER - {PodPhase.WAITING}

POD_PREDICATES: Final = {
    "may be bound": frozenset({PodPhase.WAITING}),
    "holds its node": HOLDS_NODE,
    "is leaving": frozenset({PodPhase.STOPPING}),
    "is over": OVER,
    "has left its node": frozenset({PodPhase.GONE}),
}
"""The questions that are asked about pods, each with the phases for which the answer is yes. One exception: a pod that
is deleted before it has a node is `stopping`, although it holds no node.
"""


def pod_phase(pod: Pod) -> PodPhase:
    """Return the phase of a workload's pod, derived from its spec, status and metadata.

    While a pod is being deleted, the kubelet first reports that its containers have ended. It then frees the sandbox,
    cgroups and volumes, and last deletes the pod object with grace period 0. After that, only a finalizer that somebody
    else has set can keep the object: the phase is then GONE. Before, it is OVER. A finished pod that nobody has deleted
    is GONE, too.
    """
    if pod.is_finished and not is_running(pod):
        meta = pod.metadata
        is_freed = meta.deletion_grace_period_seconds == 0 and bool(meta.finalizers)
        return PodPhase.GONE if is_freed or not pod.is_deleting else PodPhase.OVER
    if pod.is_deleting:
        return PodPhase.STOPPING
    if not pod.spec.node_name and not pod.is_finished:
        return PodPhase.WAITING
    return PodPhase.RUNNING if is_running(pod) else PodPhase.BOUND


def is_running(pod: Pod) -> bool:
    """True if a container or an init container of the pod is running now."""
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return any(status.state.running is not None for status in statuses)


_STARTS: Final = ("", "ContainerCreating", "PodInitializing")
"""Reasons of a waiting container that is about to run."""


def why_stuck(pod: Pod) -> str:
    """Return why a container of a pod on a node does not start, in the kubelet's words. Empty if nothing hinders it, or
    if the pod has no node, a container of it runs, or it has ended.
    """
    if not pod.spec.node_name or pod_phase(pod) in OVER or is_running(pod):
        return ""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waits = status.state.waiting
        if waits is not None and waits.reason not in _STARTS:
            return f"container {status.name}: {waits.reason}{f': {waits.message}' if waits.message else ''}"
    return ""


def is_over(pod: Pod) -> bool:
    """True if the pod has finished and none of its containers runs any more."""
    return pod_phase(pod) in OVER


def has_left_node(pod: Pod) -> bool:
    """True if nothing of the pod is left on its node: no container, volume or cgroup. For a pod that is being deleted,
    `is_over` is true earlier: as soon as the containers have ended.
    """
    return pod_phase(pod) is PodPhase.GONE


class GangState(Phase):
    """The states of a gang, from waiting for a job to done. `Snapshot.state` derives the state from the gang's pods and
    jobs.
    """

    WAITING = (
        "waiting",
        "the gang has no job yet, or only one that sunkpy is ending; for example, pods are missing or held by a "
        "scheduling gate, something in them is not valid, no node fits, or Slurm refused the job",
    )
    SUBMITTED = ("submitted", "the gang's job waits in Slurm's queue")
    STARTED = ("started", "Slurm has given nodes to the gang's job; the pods are not bound yet")
    BOUND = ("bound", "a pod of the gang is bound to a node; none of their containers runs yet")
    RUNNING = ("running", "a container of the gang's pods runs")
    ENDING = ("ending", "the gang's pods have finished; the job has not ended yet")
    HANDING_OVER = (
        "handing-over",
        "the gang's job has lost its nodes; pods are still there, and the job's epilog waits for them",
    )
    DONE = ("done", "the gang's pods have finished, and its job has ended")

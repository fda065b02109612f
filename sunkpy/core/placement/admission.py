"""Checks whether the kubelet would admit a pod to its node now, and whether the node's taints and cordon allow the pod.

The scheduler checks this before it binds the pod, because a bound pod that the kubelet refuses is Failed for good
(`OutOfcpu`…). Source of the rules: kubelet lifecycle.predicateAdmitHandler: node affinity, resources of all pods that
have not finished (terminating ones included), and NoExecute taints. NoSchedule taints and cordons are kube-scheduler's
rules (plugins TaintToleration and NodeUnschedulable). They are checked as well, because no new pods may come to a node
that somebody empties.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

from sunkpy.core import names
from sunkpy.core.model import matching
from sunkpy.core.model.objects import Node, Pod, Taint, shown_to
from sunkpy.core.placement.eligibility import TRANSIENT_TAINTS


class Verdict(enum.Enum):
    """What would happen to the pod if it were bound now: the kubelet would admit it or refuse it. WAIT: the pod is not
    bound now, and is tried again soon.
    """

    ADMIT = "admit"
    WAIT = "wait"  # not now, but perhaps soon: mostly once pods that are already ending are gone
    REFUSE = "refuse"


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the kubelet would admit a pod to a node, and if not, the reason in words (`why`). `reason`: if devices
    are lacking, one word for that (`DeviceLack`).

    `is_of_others`: other pods, which come and go, are in the way, and nothing is wrong with this pod.
    """

    verdict: Verdict
    why: str = ""
    reason: str = ""
    is_of_others: bool = False


ADMITTED = Admission(verdict=Verdict.ADMIT)


def would_kubelet_admit(pod: Pod, node: Node, pods_on_node: Iterable[Pod]) -> Admission:
    """Return whether `pod` may be bound to the node now: whether the kubelet would admit it, and whether the node's
    taints and cordon allow it. `pods_on_node`: all pods that are bound to the node.
    """
    if unwanted := why_node_refuses(pod, node):
        return _refuse(unwanted)
    others = [other for other in pods_on_node if other.uid != pod.uid]
    needs = matching.of_kubelet(matching.pod_requests(pod.spec))
    lacking = matching.shortfalls(needs, matching.free_allocatable(node, others))
    if not lacking:
        return ADMITTED
    why = f"node {node.name} {lacking[0]}"
    staying = [other for other in others if not other.is_deleting]
    if matching.shortfalls(needs, matching.free_allocatable(node, staying)):
        is_of_others = not matching.shortfalls(needs, matching.free_allocatable(node, ()))
        return Admission(verdict=Verdict.REFUSE, why=why, is_of_others=is_of_others)
    ending = ", ".join(
        sorted({shown_to(pod.metadata.namespace, o) for o in others if o.is_deleting and not o.is_finished})
    )
    return Admission(verdict=Verdict.WAIT, why=f"{why} until {ending} has ended")


def why_node_refuses(pod: Pod, node: Node) -> str:
    """Return why the pod may not come to the node, whatever other pods are there; empty if it may."""
    if not matching.matches_affinity(node, pod.spec):
        return f"node {node.name} does not match the pod's nodeSelector or node affinity"
    taints = matching.untolerated(node.spec.taints, pod.spec.tolerations, effects=(matching.NO_EXECUTE,))
    taints += matching.untolerated(
        node.spec.taints, pod.spec.tolerations, effects=(matching.NO_SCHEDULE,), ignored_keys=TRANSIENT_TAINTS
    )
    if taints:
        return f"node {node.name} has taint {taints[0].key}:{taints[0].effect} that the pod does not tolerate"
    if node.spec.unschedulable and matching.untolerated((_CORDON,), pod.spec.tolerations):
        reason = node.annotations.get(names.ANNOTATION_DRAIN, "") or "no reason given"
        return f"node {node.name} is cordoned by {_who_cordoned(node)} ({reason})"
    return ""


_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect=matching.NO_SCHEDULE)
"""The taint of a cordoned node. A pod that tolerates it may be bound there, even before the node has the taint."""


def _who_cordoned(node: Node) -> str:
    if node.annotations.get(names.ANNOTATION_CORDONED_BY) == names.CORDONED_BY_SLURM:
        return "a drain in Slurm"
    return node.annotations.get(names.ANNOTATION_DRAIN_BY) or "somebody in Kubernetes"


def _refuse(why: str) -> Admission:
    return Admission(verdict=Verdict.REFUSE, why=why)

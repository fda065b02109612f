"""Whether a node may carry a slurmd pod of a NodeSet, and if not, which rule forbids it.

Most rules are those of the DaemonSet controller and the kubelet's own admission: required node affinity and node
selector, taints, and requests against what is free; preferred affinity is ignored. sunkpy adds that a node belongs to
one NodeSet at a time, that a node which is being emptied gets no pod, and that it must offer the GPUs that the NodeSet
names.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Self

import msgspec

from sunkpy.core import names
from sunkpy.core.model import matching
from sunkpy.core.model.objects import Node, Pod, PodSpec, Toleration
from sunkpy.core.nodeset.spec import Gpu

# A slurmd pod is made where a DaemonSet's pod would be made.
OUR_TOLERATIONS = (
    Toleration(key="node.kubernetes.io/disk-pressure", operator="Exists", effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/memory-pressure", operator="Exists", effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/pid-pressure", operator="Exists", effect="NoSchedule"),
    Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule"),
    Toleration(key=names.TAINT_LOCK, operator="Exists"),
    Toleration(key=names.TAINT_DRAIN, operator="Exists", effect="NoSchedule"),
)

STAYS = Toleration(operator="Exists", effect=matching.NO_EXECUTE)
"""A slurmd pod also tolerates all taints with NoExecute, because Slurm and not a taint decides when jobs are over. A
node with such a taint is left like any node that no longer fits.
"""

# The node lifecycle controller sets these on a node that is not Ready, and removes them, so they exclude no node.
_PASSING_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})

# Whoever sets these removes or stops the machine next, whatever a pod tolerates. Read in November 2026: autoscaler
# (utils/taints), Karpenter (pkg/apis/v1/taints.go), aws-node-termination-handler (pkg/node/node.go; not its
# rebalance-recommendation, which is none), Google's k8s-node-termination-handler, AKS (node auto-drain, auto-repair),
# and the autoscaler for OKE (cloudprovider/oci).
_LAST_TAINTS = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/asg-lifecycle-termination",
        "aws-node-termination-handler/scheduled-maintenance",
        "cloud.google.com/impending-node-termination",
        "remediator.kubernetes.azure.com/unschedulable",
        "ignore-taint.cluster-autoscaler.kubernetes.io/oke-impending-node-termination",
    }
)
_SHUTS_DOWN = "node is shutting down"
"""The start of the message of Ready, from a kubelet whose machine is being stopped (graceful node shutdown)."""

# Whoever sets this says that the machine is off.
_OFF_TAINT = "node.kubernetes.io/out-of-service"


class ExclusionRule(enum.Enum):
    """A rule by which a node cannot carry a slurmd pod. Its value is the text for one node and the text for several:
    `lacks`, `lack`.
    """

    SELECTOR = ("does not match nodeSelector", "do not match nodeSelector")
    AFFINITY = ("does not match nodeAffinity", "do not match nodeAffinity")
    TAINT = ("has an untolerated taint", "have untolerated taints")
    EMPTIED = ("is being emptied", "are being emptied")
    RELEASED = ("was idle and may be removed by autoscalers", "were idle and may be removed by autoscalers")
    RIVAL = ("belongs to another NodeSet", "belong to another NodeSet")
    RESOURCE = ("lacks", "lack")


class Exclusion(msgspec.Struct, frozen=True):
    """Why a node cannot carry a slurmd pod. `rule`: the rule that forbids it. `subject`: the resource that is lacking.
    `detail`: the numbers, the taint or the other NodeSet.

    `may_stay`: a pod that is already there need not leave, for example because of a NoSchedule taint or because other
    pods took the resources.
    """

    rule: ExclusionRule
    subject: str = ""
    detail: str = ""
    may_stay: bool = False

    def __str__(self) -> str:
        """Return the exclusion of one node in words: `lacks memory: needs 64Gi, has 23Gi`."""
        text = f"{self.rule.value[0]} {self.subject}".rstrip()
        return f"{text}: {self.detail}" if self.detail else text


class NodeDemand(msgspec.Struct, frozen=True, kw_only=True):
    """What the pods of a NodeSet need from a node.

    `spec` is the template, with the tolerations that people wrote; `decide_fit` adds sunkpy's own. `needs` are its
    requests. `gpu`: if set, the node must offer at least one such GPU, because a node whose device plugin or driver has
    not yet reported would register in Slurm without its GPUs.
    """

    spec: PodSpec
    needs: matching.Amounts
    gpu: Gpu | None = None

    @classmethod
    def read(cls, spec: PodSpec, gpu: Gpu | None) -> Self:
        """Read what a pod template needs from a node.

        Raises:
            quantity.BadQuantity: a request is not a quantity.
        """
        return cls(spec=spec, needs=matching.pod_requests(spec), gpu=gpu)


def decide_fit(node: Node, asked: NodeDemand, *, occupants: Iterable[Pod], rival: str | None) -> Exclusion | None:
    """Return the first rule by which the node may not carry a slurmd pod; None if it may.

    Args:
        node: the node in question.
        asked: what the pod needs.
        occupants: the pods on the node that are not of this NodeSet; their requests take room.
        rival: `namespace/name` of the other NodeSet that has a slurmd pod there.
    """
    if not matching.matches_node_labels(node, asked.spec.node_selector):
        return Exclusion(ExclusionRule.SELECTOR)
    if not matching.matches_affinity(node, asked.spec):
        return Exclusion(ExclusionRule.AFFINITY)
    if rival is not None:
        return Exclusion(ExclusionRule.RIVAL, detail=rival)
    emptied = _decide_emptied(node)
    if emptied is not None:
        return emptied
    return _decide_taints(node, asked.spec) or _decide_gpu(node, asked) or _decide_room(node, asked, occupants)


def departure(node: Node) -> str | None:
    """Return in words the sign that the Node is about to be removed or stopped, whatever runs there: its deletion, a
    taint, or what its kubelet says. None if there is no sign.
    """
    if node.is_deleting:
        return "the Node is being deleted"
    if taint := next((taint.key for taint in node.spec.taints if taint.key in _LAST_TAINTS), ""):
        return f"taint {taint}"
    ready = node.condition("Ready") if not node.is_ready else None
    return f"its kubelet says: {_SHUTS_DOWN}" if ready is not None and _SHUTS_DOWN in ready.message else None


def is_lost(node: Node | None) -> bool:
    """True if nothing runs on the node any more: there is no Node object, or an `out-of-service` taint says that the
    machine is off.
    """
    return node is None or any(taint.key == _OFF_TAINT for taint in node.spec.taints)


def _decide_emptied(node: Node) -> Exclusion | None:
    """Return an exclusion if the node is being emptied: it is about to be removed, or it is cordoned and its slurmd pod
    was evicted. None if not. If the evicted pod came back, `kubectl drain` would never end.
    """
    why = departure(node)
    if why is not None:
        return Exclusion(ExclusionRule.EMPTIED, detail=why, may_stay=True)
    if node.spec.unschedulable and names.ANNOTATION_EMPTIED in node.annotations:
        return Exclusion(ExclusionRule.EMPTIED, detail="cordoned and drained by kubectl or a controller", may_stay=True)
    return None


def _decide_taints(node: Node, template: PodSpec) -> Exclusion | None:
    """Return an exclusion for the worst taint that the slurmd pod does not tolerate, NoExecute before NoSchedule; None
    if it tolerates all taints.
    """
    if not node.spec.taints:
        return None
    left = matching.untolerated(
        node.spec.taints, (*template.tolerations, *OUR_TOLERATIONS), ignored_keys=_PASSING_TAINTS
    )
    if not left:
        return None
    taint = min(left, key=lambda taint: taint.effect != matching.NO_EXECUTE)
    detail = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
    return Exclusion(ExclusionRule.TAINT, detail=detail, may_stay=taint.effect == matching.NO_SCHEDULE)


def _decide_gpu(node: Node, asked: NodeDemand) -> Exclusion | None:
    gpu = asked.gpu
    if gpu is None or gpu.offered_on(node):
        return None
    return Exclusion(ExclusionRule.RESOURCE, subject=str(gpu), detail=gpu.why_none_on(node), may_stay=True)


def _decide_room(node: Node, asked: NodeDemand, occupants: Iterable[Pod]) -> Exclusion | None:
    short = matching.shortfalls(asked.needs, matching.free_allocatable(node, occupants))
    if not short:
        return None
    first = short[0]
    has = matching.show(first.resource, max(first.has, 0))
    return Exclusion(
        ExclusionRule.RESOURCE,
        subject=first.resource,
        detail=f"needs {matching.show(first.resource, first.needs)}, has {has}",
        may_stay=not matching.shortfalls(asked.needs, matching.allocatable(node)),
    )


def explain_exclusions(exclusions: Mapping[Exclusion, int]) -> str:
    """Return the exclusions in words, the most frequent rule first: `2 do not match nodeAffinity, 1 lacks memory: needs
    64Gi, has 23Gi`.

    Args:
        exclusions: how many nodes have each exclusion.
    """
    groups: dict[tuple[ExclusionRule, str], Counter[str]] = {}
    for exclusion, count in exclusions.items():
        groups.setdefault((exclusion.rule, exclusion.subject), Counter())[exclusion.detail] += count
    ordered = sorted(groups.items(), key=lambda item: (-item[1].total(), item[0][0].name, item[0][1]))
    return ", ".join(_phrase(rule, subject, details) for (rule, subject), details in ordered)


def _phrase(rule: ExclusionRule, subject: str, details: Counter[str]) -> str:
    (one, several), total = rule.value, details.total()
    text = f"{total} {one if total == 1 else several}"
    if subject:
        text += f" {subject}"
    kinds = sorted(detail for detail in details if detail)
    if not kinds:
        return text
    return f"{text}: {kinds[0]}" if len(kinds) == 1 else f"{text}: {kinds[0]} …"

"""The Slurm nodes that a pod may use, by the rules of Kubernetes that Slurm does not know.

Slurm places the job. So that Slurm chooses no node where the pod must not go, such nodes are excluded from the job. If
possible the job asks for features instead: for the NodeSets of the nodes that remain, or for a label. Then the job need
not be changed when nodes join while it waits. All other nodes that must not be used are excluded by name.

Only lasting facts count: labels, taints, sizes, daemons. Nodes that are full of jobs, cordoned, not ready or drained
now are not excluded: Slurm knows of that, through the syncer, and the job waits in the queue. One lack excludes a node
only for now: too little of a resource that Slurm does not count is left (`full_nodes`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property, reduce

import msgspec

from sunkpy.core import names
from sunkpy.core.model import matching
from sunkpy.core.model.capacity import Capacity
from sunkpy.core.model.gres import gres_counts
from sunkpy.core.model.objects import Node, PodSpec
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.placement.needs import counted

TRANSIENT_TAINTS = frozenset({
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    names.TAINT_LOCK,
})  # fmt: skip

_PLAIN = re.compile(r"[\w.:/=-]+(?:&[\w.:/=-]+)*")
"""Matches a constraint that is a list of features joined by `&`: a node must have all of them."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A Slurm node, with the Kubernetes node that it runs on.

    `slurm` is what slurmctld says of the Slurm node, once that is known. `taken` is what pods that Slurm does not
    schedule take of the node. `nodeset` is the name of its NodeSet, which the Slurm node has as a feature.
    """

    slurm_node: str
    node: Node
    slurm: SlurmNode | None = None
    taken: dict[str, int] = {}
    nodeset: str = ""

    @cached_property
    def offered(self) -> matching.Amounts:
        """What the node offers to all pods together."""
        return matching.allocatable(self.node)

    @cached_property
    def left(self) -> matching.Amounts:
        """What the node offers to pods, less what pods that Slurm does not schedule have taken."""
        return matching.subtracted(self.offered, self.taken)

    @cached_property
    def kind(self) -> Hashable:
        """The properties that decide whether a pod may use the node, except labels and names. Of the nodes of one kind
        whose labels it accepts, a pod may use either all or none.
        """
        slurm = (self.slurm.usable_cpus, self.slurm.memory_mib, self.slurm.gres) if self.slurm is not None else None
        amounts = (frozenset(self.offered.items()), frozenset(self.taken.items()))
        return (self.node.spec.taints, amounts, slurm)

    @cached_property
    def is_free(self) -> bool:
        """True if no job is on the node, and Slurm may start one there now."""
        return self.slurm is not None and not (self.slurm.is_busy or self.slurm.is_closed or self.slurm.is_down)

    @cached_property
    def room(self) -> NodeAmounts:
        """What the empty node offers to pods that Slurm schedules: the smaller of what the Node and Slurm say."""
        cpu, memory = self.left.get("cpu", 0), self.left.get("memory", 0)
        if self.slurm is None:
            return frozenset({"cpu": cpu, "memory": memory}.items())
        cpu = min(cpu, self.slurm.usable_cpus * 1000 or cpu)
        memory = min(memory, self.slurm.memory_mib * 2**20 or memory)
        return frozenset({"cpu": cpu, "memory": memory, **gres_counts(self.slurm.gres)}.items())


NodeAmounts = frozenset[tuple[str, int]]
"""The amounts of a node as pairs of name and number: `cpu` in millicores, `memory` in bytes, and each GRES under its
name (`gpu`) and under its name with type (`gpu:h100`).
"""


def times(needs: Mapping[str, int], room: NodeAmounts) -> int:
    """Return how many times the needs fit into a node's amounts. `needs`: as `core.placement.needs.counted` returns
    them.
    """
    has = dict(room)
    return min(has.get(name, 0) // amount for name, amount in needs.items() if amount)


class Eligibility(msgspec.Struct, frozen=True, kw_only=True):
    """The Slurm nodes that a pod may use (`eligible`), and why it may not use the others (`refused`: Slurm node →
    reason). Names are sorted. A reason that has nothing to do with the nodes has the key "".

    `rooms`: the different amounts that eligible nodes have; empty if they are not known. `features`: each eligible node
    has at least one of these; empty if the job has to exclude nodes by name. `outside`: refused nodes that have none of
    these features, so the job need not exclude them by name.
    """

    eligible: tuple[str, ...]
    refused: dict[str, str] = {}
    rooms: frozenset[NodeAmounts] = frozenset()
    features: tuple[str, ...] = ()
    outside: frozenset[str] = frozenset()

    def has_room_for(self, needs: Mapping[str, int]) -> bool:
        """True if the needs fit on one of the eligible nodes when nothing else runs there, or if that is not known."""
        return not self.rooms or any(times(needs, room) for room in self.rooms)

    def slots_on_smallest(self, needs: Mapping[str, int]) -> int:
        """Return how often the needs fit on the smallest eligible node that holds them at all; 0 if it is not known."""
        return min(filter(None, (times(needs, room) for room in self.rooms)), default=0)


def nowhere(why: str) -> Eligibility:
    """Return an eligibility without nodes, for a reason that has nothing to do with the nodes."""
    return Eligibility(eligible=(), refused={"": why})


def eligible_nodes(
    spec: PodSpec,
    candidates: Iterable[Candidate],
    *,
    gpu_resources: Mapping[str, str],
    foreign: Iterable[str] = (),
) -> Eligibility:
    """Return which of the candidates the pod may use, and why it may not use the others.

    Args:
        spec: the spec of the pod.
        candidates: all nodes.
        gpu_resources: extended resource → GRES.
        foreign: the Slurm nodes of `foreign_nodes`, which no pod may use.
    """
    needs = matching.pod_requests(spec)
    candidates, foreign = tuple(candidates), frozenset(foreign)
    by_kind: dict[Hashable, str | None] = {}
    verdicts: dict[str, str | None] = dict.fromkeys(foreign, "outside Kubernetes")
    asks_labels = bool(spec.node_selector) or matching.required_affinity(spec) is not None
    for c in candidates:
        why = _labels_refused(spec, c.node) if asks_labels else None
        if why is None:
            if c.kind not in by_kind:
                by_kind[c.kind] = _refusal(spec, needs, c, gpu_resources)
            why = by_kind[c.kind]
        verdicts[c.slurm_node] = why
    allowed = [c for c in candidates if verdicts[c.slurm_node] is None]
    found = Eligibility(
        rooms=frozenset(c.room for c in allowed),
        eligible=tuple(sorted(c.slurm_node for c in allowed)),
        refused={name: why for name, why in sorted(verdicts.items()) if why is not None},
    )
    return _by_features(found, allowed, candidates, foreign, spec.node_selector)


def foreign_nodes(slurm_nodes: Iterable[SlurmNode], candidates: Sequence[Candidate]) -> frozenset[str]:
    """Return the Slurm nodes outside Kubernetes: no slurmd pod stands for them, and no NodeSet is among their features.

    A node whose slurmd pod is replaced keeps that feature.
    """
    own, nodesets = {c.slurm_node for c in candidates}, {c.nodeset for c in candidates}
    return frozenset(n.name for n in slurm_nodes if n.name not in own and n.features.isdisjoint(nodesets))


def full_nodes(
    needs: matching.Amounts, candidates: Iterable[Candidate], held: Mapping[str, matching.Amounts]
) -> dict[str, str]:
    """Return the nodes that have too little left for these needs, because pods with a Slurm job hold the rest: Slurm
    node → what is lacking. Nodes without such pods are left out.

    `held`: what pods with a job hold, by Kubernetes node.
    """
    full = {}
    for candidate in candidates:
        taken = held.get(candidate.node.name)
        if taken and (lacking := matching.shortfalls(needs, matching.subtracted(candidate.left, taken))):
            full[candidate.slurm_node] = (
                f"{lacking[0]} beside pods of other Slurm jobs (Slurm does not count this resource)"
            )
    return full


def in_common(eligibilities: Sequence[Eligibility]) -> Eligibility | None:
    """Return the nodes that all eligibilities allow; None without any eligibility. If several refuse a node, the first
    reason is kept.
    """
    return reduce(_both, eligibilities) if eligibilities else None


def _both(one: Eligibility, other: Eligibility) -> Eligibility:
    if one is other:
        return one
    refused = dict(sorted((other.refused | one.refused).items()))
    return msgspec.structs.replace(
        one,
        # An eligibility without any node refuses no node by name.
        eligible=tuple(n for n in one.eligible if n not in refused) if other.eligible else (),
        refused=refused,
        rooms=one.rooms & other.rooms,
    )


def minus(eligibility: Eligibility, slurm_nodes: Mapping[str, str]) -> Eligibility:
    """Return the eligibility without some nodes. `slurm_nodes`: Slurm node → why it is left out."""
    taken = {name: slurm_nodes[name] for name in eligibility.eligible if name in slurm_nodes} if slurm_nodes else {}
    if not taken:
        return eligibility
    left = tuple(name for name in eligibility.eligible if name not in taken)
    refused = dict(sorted((eligibility.refused | taken).items()))
    return msgspec.structs.replace(eligibility, eligible=left, refused=refused)


def without(eligibility: Eligibility, slurm_nodes: Mapping[str, str]) -> Eligibility:
    """Return the eligibility without some nodes, as `minus` does, but unchanged if no node would be left."""
    if not slurm_nodes:
        return eligibility
    return minus(eligibility, slurm_nodes) if set(eligibility.eligible) - set(slurm_nodes) else eligibility


def excluded(eligibility: Eligibility) -> tuple[str, ...]:
    """Return the Slurm nodes that the job has to exclude by name. Empty if no node has to be excluded, or if the
    features that the job asks for exclude all of them.
    """
    return tuple(sorted(name for name in eligibility.refused if name not in eligibility.outside))


def by_names(eligibility: Eligibility) -> Eligibility:
    """Return the eligibility for a job that cannot ask for features, and so excludes all other nodes by name."""
    return msgspec.structs.replace(eligibility, features=(), outside=frozenset())


def takes_features(constraint: str) -> bool:
    """True if features can be added to this --constraint of a job: Slurm has no brackets within brackets."""
    return not constraint or _PLAIN.fullmatch(constraint) is not None


def with_features(constraint: str, features: Sequence[str]) -> str:
    """Return the constraint, limited to nodes that have one of the features (man sbatch, --constraint)."""
    if not features:
        return constraint
    any_of = "|".join(features)
    if not constraint:
        return any_of
    return f"{constraint}&({any_of})" if len(features) > 1 else f"{constraint}&{any_of}"


def _by_features(
    eligibility: Eligibility,
    allowed: Sequence[Candidate],
    candidates: Sequence[Candidate],
    foreign: Iterable[str],
    selector: Mapping[str, str],
) -> Eligibility:
    """Return the eligibility with the features that save the most excluded names, if any save some. The features are
    the NodeSets of the eligible nodes, or a label that the pod selects and that NodeSets make a feature.
    """
    nodesets = frozenset(c.nodeset for c in allowed)
    of_labels = (frozenset({names.feature_of_label(*label)}) for label in sorted(selector.items()))
    spared = {each: _outside(each, allowed, candidates) & eligibility.refused.keys() for each in (nodesets, *of_labels)}
    if allowed and all(c.slurm is not None and c.nodeset in c.slurm.features for c in allowed):
        spared[nodesets] |= set(foreign)
    features, outside = max(spared.items(), key=lambda each: len(each[1]))
    return (
        msgspec.structs.replace(eligibility, features=tuple(sorted(features)), outside=outside)
        if outside
        else eligibility
    )


def _outside(features: frozenset[str], allowed: Sequence[Candidate], candidates: Iterable[Candidate]) -> frozenset[str]:
    """Return the Slurm nodes that have none of these features; empty if an allowed node has none of them either."""
    if not allowed or any(c.slurm is None or c.slurm.features.isdisjoint(features) for c in allowed):
        return frozenset()
    return frozenset(c.slurm_node for c in candidates if c.slurm is not None and c.slurm.features.isdisjoint(features))


def explain_eligibility(eligibility: Eligibility) -> str:
    """Return why no node will do: `none of 3 Slurm nodes fits: 2 do not match …, 1 lacks memory: needs 64Gi …`."""
    if not eligibility.refused:
        return "there is no Slurm node yet: no NodeSet of this cluster has a node"
    if about_the_pod := eligibility.refused.get(""):
        return about_the_pod
    counts = Counter(eligibility.refused.values())
    reasons = ", ".join(f"{count} {why}" for why, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return f"none of {len(eligibility.refused)} Slurm nodes fits: {reasons}"


def _labels_refused(spec: PodSpec, node: Node) -> str | None:
    if not matching.matches_node_labels(node, spec.node_selector):
        return "with labels other than the pod's nodeSelector"
    return None if matching.matches_affinity(node, spec) else "outside the pod's node affinity"


def _refusal(
    spec: PodSpec,
    needs: matching.Amounts,
    candidate: Candidate,
    gpu_resources: Mapping[str, str],
) -> str | None:
    """Return why the pod may not use the node, apart from labels; None if it may. The answer is the same for all nodes
    of the same `Candidate.kind`.
    """
    taints = matching.untolerated(candidate.node.spec.taints, spec.tolerations, ignored_keys=TRANSIENT_TAINTS)
    if taints:
        return f"with taint {taints[0].key}={taints[0].value}:{taints[0].effect} that the pod does not tolerate"
    of_kubelet = matching.of_kubelet(needs)
    if lacking := matching.shortfalls(of_kubelet, candidate.offered):
        return str(lacking[0])
    if lacking := matching.shortfalls(of_kubelet, candidate.left):
        return f"{lacking[0]} beside pods that Slurm does not schedule"
    node = candidate.slurm or SlurmNode(name="")
    # The node is large enough for the kubelet, but part of it is kept from Slurm (NodeSet `reserved`).
    gres = gres_counts(node.gres) if node.cpus else None
    has = Capacity(cpus=node.usable_cpus, memory_mib=node.memory_mib, gres=gres)
    lacks = has.lacking(counted(needs, gpu_resources), has.amounts)
    return f"{lacks} for Slurm" if lacks else None

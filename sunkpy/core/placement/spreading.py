"""Finds the nodes to which a pod must not go because its topologySpreadConstraints spread pods evenly over the values
of a node label.

Only constraints that forbid (`whenUnsatisfiable: DoNotSchedule`) count. A pod is compared with the pods that are there
now: if two pods start at once, the second may be refused when it is about to be bound. Nodes without a Slurm node do
not count, because no pod of a job could even them out.

Source of the rules: kube-scheduler plugin podtopologyspread (filtering.go, and KEP-3094 for the policies).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from sunkpy.core.model import matching
from sunkpy.core.model.objects import LabelSelector, Node, Pod, PodSpec, SpreadConstraint


def is_counted(constraint: SpreadConstraint, of: Pod, other: Pod) -> bool:
    """True if the spread constraint of the pod `of` counts the pod `other`, which may be the same pod."""
    return counter_of(constraint, of)(other)


def counter_of(constraint: SpreadConstraint, of: Pod) -> Callable[[Pod], bool]:
    """Return a function that says whether the spread constraint of the pod `of` counts a pod. The function is faster
    when it is asked about many pods.
    """
    if constraint.label_selector is None:
        return lambda _: False
    namespace, matches = of.metadata.namespace, matching.label_matcher(constraint.label_selector)
    alike = labels_alike(constraint, of)

    def counts(other: Pod) -> bool:
        return (
            other.metadata.namespace == namespace
            and matches(other.labels)
            and all(other.labels.get(name) == value for name, value in alike)
        )

    return counts


def labels_alike(constraint: SpreadConstraint, of: Pod) -> tuple[tuple[str, str], ...]:
    """Return the labels that a pod must have, besides those of the selector, to be counted by the spread constraint of
    the pod `of` (`matchLabelKeys`).
    """
    return tuple((name, of.labels[name]) for name in constraint.match_label_keys if name in of.labels)


def labels_compared(pod: Pod) -> Iterator[str]:
    """Yield the names of the labels by which the pod's constraints tell pods apart."""
    for each in pod.spec.hard_spread_constraints:
        yield from each.match_label_keys
        yield from matching.labels_named(each.label_selector)


def crowded(
    pod: Pod,
    nodes: Mapping[str, Node],
    others: Callable[[LabelSelector], Iterable[Pod]],
    *,
    is_usable: Callable[[str], bool],
) -> dict[str, str]:
    """Return Kubernetes node → why the pod must not go there by its spread constraints: it would be one pod too many
    there, or the node lacks the label.

    Args:
        pod: a pod that is not bound.
        nodes: all nodes, by name.
        others: returns at least those pods on nodes in the pod's namespace that a selector selects.
        is_usable: whether a job could have the node of this name.
    """
    found: dict[str, str] = {}

    @cache
    def included(honors_affinity: bool, honors_taints: bool) -> Sequence[Node]:
        return [
            node
            for name, node in nodes.items()
            if is_usable(name) and _is_included(pod.spec, node, honors_affinity, honors_taints)
        ]

    for each in pod.spec.hard_spread_constraints:
        honored = included(each.node_affinity_policy != "Ignore", each.node_taints_policy == "Honor")
        meant = others(each.label_selector) if each.label_selector is not None else ()
        there = (other for other in meant if not other.is_finished and not other.is_deleting)
        for name, why in _crowded(each, pod, nodes, honored, there):
            found.setdefault(name, why)
    return found


def _crowded(
    constraint: SpreadConstraint,
    pod: Pod,
    nodes: Mapping[str, Node],
    included: Iterable[Node],
    others: Iterable[Pod],
) -> Iterator[tuple[str, str]]:
    key, counts = constraint.topology_key, counter_of(constraint, pod)
    counted = {node.name: node.labels[key] for node in included if key in node.labels}
    pods = Counter(dict.fromkeys(counted.values(), 0))
    pods.update(counted[other.spec.node_name] for other in others if other.spec.node_name in counted and counts(other))
    least = min(pods.values(), default=0) if len(pods) >= (constraint.min_domains or 1) else 0
    own = int(counts(pod))
    for name, node in nodes.items():
        value = node.labels.get(key)
        if value is None:
            yield name, f"it has no label {key}, over which the pod must be spread"
        elif (there := pods[value]) + own - least > constraint.max_skew:
            skew = f"maxSkew {constraint.max_skew}"
            yield name, f"{there} pods like it are in {key}={value} and {least} elsewhere ({skew})"


def _is_included(spec: PodSpec, node: Node, honors_affinity: bool, honors_taints: bool) -> bool:
    if honors_affinity and not matching.matches_affinity(node, spec):
        return False
    return not honors_taints or not matching.untolerated(node.spec.taints, spec.tolerations)

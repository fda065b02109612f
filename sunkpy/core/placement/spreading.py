"""Pods that must be spread evenly over the values of a node label.

Only constraints that forbid (`whenUnsatisfiable: DoNotSchedule`) count. A pod is compared with the pods that are there
now: if two pods start at once, the second is refused when it is about to be bound. Nodes without a Slurm node do not
count, because no pod of a job could even them out.

Source of the rules: kube-scheduler plugin podtopologyspread (filtering.go, and KEP-3094 for the policies).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from sunkpy.core.model import matching
from sunkpy.core.model.objects import Node, Pod, PodSpec, SpreadConstraint


def is_counted(constraint: SpreadConstraint, of: Pod, other: Pod) -> bool:
    """True if the spread constraint of the pod `of` counts the pod `other`, which may be the same pod."""
    if constraint.label_selector is None or other.metadata.namespace != of.metadata.namespace:
        return False
    alike = (name for name in constraint.match_label_keys if name in of.labels)
    return matching.matches_labels(constraint.label_selector, other.labels) and all(
        other.labels.get(name) == of.labels[name] for name in alike
    )


def labels_compared(pod: Pod) -> Iterator[str]:
    """Yield the names of the labels by which the pod's constraints tell pods apart."""
    for each in pod.spec.hard_spread_constraints:
        yield from each.match_label_keys
        yield from matching.labels_named(each.label_selector)


def crowded(
    pod: Pod, nodes: Mapping[str, Node], others: Iterable[Pod], *, is_usable: Callable[[str], bool]
) -> dict[str, str]:
    """Return Kubernetes node → why the pod must not go there by its spread constraints: it would be one too many.

    Args:
        pod: a pod that is not bound.
        nodes: all nodes, by name.
        others: the pods that are on nodes.
        is_usable: whether a job could have the node of this name.
    """
    found: dict[str, str] = {}
    others = tuple(each for each in others if not each.is_finished and not each.is_deleting)
    for each in pod.spec.hard_spread_constraints:
        for name, why in _crowded(each, pod, nodes, others, is_usable):
            found.setdefault(name, why)
    return found


def _crowded(
    constraint: SpreadConstraint,
    pod: Pod,
    nodes: Mapping[str, Node],
    others: Iterable[Pod],
    is_usable: Callable[[str], bool],
) -> Iterator[tuple[str, str]]:
    key = constraint.topology_key
    counted = {
        name: node.labels[key]
        for name, node in nodes.items()
        if key in node.labels and is_usable(name) and _is_included(constraint, pod.spec, node)
    }
    pods = Counter(dict.fromkeys(counted.values(), 0))
    pods.update(
        counted[other.spec.node_name]
        for other in others
        if other.spec.node_name in counted and is_counted(constraint, pod, other)
    )
    least = min(pods.values(), default=0) if len(pods) >= (constraint.min_domains or 1) else 0
    own = int(is_counted(constraint, pod, pod))
    for name, node in nodes.items():
        value = node.labels.get(key)
        if value is None:
            yield name, f"it has no label {key}, over which the pod must be spread"
        elif (there := pods[value]) + own - least > constraint.max_skew:
            skew = f"maxSkew {constraint.max_skew}"
            yield name, f"{there} pods like it are in {key}={value} and {least} elsewhere ({skew})"


def _is_included(constraint: SpreadConstraint, spec: PodSpec, node: Node) -> bool:
    if constraint.node_affinity_policy != "Ignore" and not matching.matches_affinity(node, spec):
        return False
    honors_taints = constraint.node_taints_policy == "Honor"
    return not honors_taints or not matching.untolerated(node.spec.taints, spec.tolerations)

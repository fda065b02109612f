"""What a slurmd pod says of its Node, and what the Node says to the pod.

Ownership ends every loop. Pod → Node: labels, conditions, and a cordon that carries `cordoned-by: slurm`. Node → Pod:
the cordon that anybody else has set. A cordon of ours is never told to the pod, so it cannot come back as a Slurm
drain; a cordon of others is never lifted.

When the pod is gone the labels and conditions go, but **our cordon stays**: it stands for a drain with a reason in
Slurm ("bad GPU"), and a pod that is gone says nothing about the machine. The next slurmd pod on the node reports
whether Slurm has lifted the drain; a node that never gets one is uncordoned by a person. Unknown lifts nothing either.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sunkpy.core import names
from sunkpy.core.model.conditions import says_the_same
from sunkpy.core.model.objects import Condition, Node, Pod

Changes = Mapping[str, str | None]
"""Key → new value, or None to remove it."""

DEFAULT_CORDON_REASON = "node cordoned"


class NodePatch(msgspec.Struct, frozen=True, kw_only=True):
    """What has to change on a Node; empty parts are left alone.

    `conditions` are to be merged by type; `gone_conditions` are types to remove.
    """

    labels: Changes = {}
    annotations: Changes = {}
    unschedulable: bool | None = None
    conditions: tuple[Condition, ...] = ()
    gone_conditions: tuple[str, ...] = ()

    @property
    def touches_object(self) -> bool:
        """One write: metadata and cordon."""
        return bool(self.labels or self.annotations) or self.unschedulable is not None

    @property
    def touches_status(self) -> bool:
        """Another write: conditions are a subresource."""
        return bool(self.conditions or self.gone_conditions)


def decide_node(node: Node, pod: Pod | None) -> NodePatch:
    """Bring labels, conditions and our cordon of `node` in line with its slurmd pod, if it has one."""
    cordon, unschedulable = _decide_cordon(node, pod)
    remembered = {names.ANNOTATION_PLACED_ON: pod.name} if pod is not None else {}
    conditions, gone = _decide_conditions(node, pod)
    return NodePatch(
        labels=_changes(node.labels, _labels(pod)),
        annotations=_changes(node.annotations, {**cordon, **remembered}),
        unschedulable=unschedulable,
        conditions=conditions,
        gone_conditions=gone,
    )


def decide_pod_cordon(node: Node | None, pod: Pod) -> Changes:
    """The annotation `sunkpy.dev/cordon` of a slurmd pod, as changes; a Node that cannot be seen changes nothing."""
    if node is None:
        return {}
    is_ours = node.annotations.get(names.ANNOTATION_CORDONED_BY) == names.CORDONED_BY_SLURM
    reason = None
    if node.spec.unschedulable and not is_ours:
        reason = node.annotations.get(names.ANNOTATION_DRAIN) or DEFAULT_CORDON_REASON
    return _changes(pod.annotations, {names.ANNOTATION_CORDON: reason})


def _changes(present: Mapping[str, str], wanted: Changes) -> Changes:
    return {key: value for key, value in wanted.items() if present.get(key) != value}


def _labels(pod: Pod | None) -> Changes:
    if pod is None:
        owned = (names.LABEL_NODESET, names.LABEL_NAMESPACE, names.LABEL_CLUSTER, names.LABEL_POD)
        return dict.fromkeys(owned)
    return {
        names.LABEL_NODESET: pod.labels.get(names.LABEL_NODESET),
        names.LABEL_NAMESPACE: pod.metadata.namespace,
        names.LABEL_CLUSTER: pod.labels.get(names.LABEL_CLUSTER),
        names.LABEL_POD: pod.name,
    }


def _decide_conditions(node: Node, pod: Pod | None) -> tuple[tuple[Condition, ...], tuple[str, ...]]:
    present = {type_: node.condition(type_) for type_ in names.SLURM_CONDITIONS}
    if pod is None:
        return (), tuple(type_ for type_, condition in present.items() if condition is not None)
    reported = {type_: _reported(pod, type_) for type_ in names.SLURM_CONDITIONS}
    changed = [new for type_, new in reported.items() if not says_the_same(present[type_], new)]
    return tuple(changed), ()


def _reported(pod: Pod, type_: str) -> Condition:
    condition = pod.condition(type_)
    if condition is None:
        return Condition(
            type=type_, status="Unknown", reason="NotReported", message=f"pod {pod.name} has no such condition yet"
        )
    return condition


def _decide_cordon(node: Node, pod: Pod | None) -> tuple[Changes, bool | None]:
    """Changes of the two cordon annotations, and of `unschedulable` (None: leave it)."""
    is_ours = node.annotations.get(names.ANNOTATION_CORDONED_BY) == names.CORDONED_BY_SLURM
    released: Changes = {names.ANNOTATION_CORDONED_BY: None, names.ANNOTATION_DRAIN: None} if is_ours else {}
    condition = pod.condition(names.CONDITION_CORDON) if pod is not None else None
    match condition.status if condition else "Unknown":
        case "True" if is_ours or not node.spec.unschedulable:
            reason = (condition.message if condition else "") or "drained in Slurm"
            held: Changes = {
                names.ANNOTATION_CORDONED_BY: names.CORDONED_BY_SLURM,
                names.ANNOTATION_DRAIN: reason,
            }
            return held, None if node.spec.unschedulable else True
        case "False" if is_ours:
            return released, False if node.spec.unschedulable else None
        case "Unknown" if is_ours and not node.spec.unschedulable:
            return released, None  # a person has lifted the cordon: nothing of ours is left to remember
        case _:
            return {}, None

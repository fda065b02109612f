"""What the slurmd pod shows on its Node, and what the Node shows on the pod.

Pod → Node: labels, conditions, the annotations for autoscalers (`protection`), and a cordon with `cordoned-by: slurm`,
or a taint (`node_mark`). What changes with each job stays on the pod, because each change of a Node goes to every
scheduler and controller there is. Node → Pod: the cordon that anybody else has set, and the Node's health. A cordon by
sunkpy is never shown on the pod, so it cannot come back as a Slurm drain. A cordon by others is never lifted.

When the pod is gone the labels and conditions go, but **sunkpy's cordon stays**: it stands for a drain with a reason in
Slurm ("bad GPU"), and the machine is no better when the pod is gone. The next slurmd pod on the node reports whether
Slurm has lifted the drain. If no slurmd pod follows, a person has to uncordon the node. While Slurm's state is unknown,
nothing is lifted.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sunkpy.core import names
from sunkpy.core.health import drain_text, lifted_reason
from sunkpy.core.model.conditions import says_the_same
from sunkpy.core.model.objects import Condition, Node, Pod, Taint
from sunkpy.core.nodeset.lock import UNLOCKED, Lock, dry_run_note, with_lock
from sunkpy.core.nodeset.node_mark import (
    AS_EVER,
    DRAIN_TAINT,
    Changes,
    MarkLimit,
    NodeMark,
    decide_node_mark,
    foreign_cordon,
    with_taint,
)
from sunkpy.core.nodeset.protection import decide_autoscaler_marks
from sunkpy.core.nodeset.release import decide_released


class NodePatch(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to write to one Node. An empty or None field changes nothing.

    `conditions` are to be merged by type; `gone_conditions` are types to remove. `is_held`: the Node would be cordoned
    or tainted, if too many Nodes were not already.
    """

    labels: Changes = {}
    annotations: Changes = {}
    unschedulable: bool | None = None
    taints: tuple[Taint, ...] | None = None
    is_held: bool = False
    conditions: tuple[Condition, ...] = ()
    gone_conditions: tuple[str, ...] = ()

    @property
    def touches_object(self) -> bool:
        """True if the patch needs a write of the object itself: metadata, cordon or taints."""
        return bool(self.labels or self.annotations) or self.unschedulable is not None or self.taints is not None

    @property
    def marks(self) -> bool:
        """True if the patch cordons or taints the Node."""
        return bool(self.unschedulable) or DRAIN_TAINT in (self.taints or ())

    @property
    def touches_status(self) -> bool:
        """True if the patch changes conditions, which are written through the Node's status subresource."""
        return bool(self.conditions or self.gone_conditions)


def decide_node(
    node: Node, pod: Pod | None, marking: MarkLimit = AS_EVER, lock: Lock = UNLOCKED, *, has_jobs: bool = False
) -> NodePatch:
    """Return the changes that bring a Node in line with its slurmd pod: labels, conditions, annotations, sunkpy's
    cordon or drain taint, and the lock (a taint that keeps other schedulers' pods away from running jobs). For a Node
    without a slurmd pod (None), sunkpy's labels and conditions go.

    `has_jobs`: pods of Slurm jobs are on the Node, even if its slurmd pod does not say so. The lock then stays.
    """
    mark = decide_node_mark(node, pod, marking)
    remembered = {names.ANNOTATION_PLACED_ON: pod.name} if pod is not None else {}
    emptied = {**_decide_emptied(node, pod), **decide_released(pod)}
    conditions, gone = _decide_conditions(node, pod, mark)
    taints = node.spec.taints if mark.is_tainted is None else with_taint(node.spec.taints, mark.is_tainted)
    taints = with_lock(taints, node, pod, lock, has_jobs=has_jobs)
    noted = {names.ANNOTATION_WOULD_LOCK: dry_run_note(node, pod, lock, has_jobs=has_jobs)}
    kept = decide_autoscaler_marks(node, pod, has_jobs=has_jobs)
    return NodePatch(
        labels=_changes(node.labels, _labels(pod)),
        annotations=_changes(node.annotations, {**mark.annotations, **remembered, **emptied, **noted, **kept}),
        unschedulable=mark.unschedulable,
        taints=taints if set(taints) != set(node.spec.taints) else None,
        is_held=mark.is_held,
        conditions=conditions,
        gone_conditions=gone,
    )


def decide_pod_cordon(node: Node | None, pod: Pod) -> Changes:
    """Return the changes of annotations on a slurmd pod that ask the syncer to drain its Slurm node, because the Node
    is cordoned or sick, or to lift somebody else's drain, because the Node has become well again.

    Without a Node object nothing changes.
    """
    if node is None:
        return {}
    wanted = {
        names.ANNOTATION_CORDON: foreign_cordon(node),
        names.ANNOTATION_HEALTH_DRAIN: drain_text(node),
        names.ANNOTATION_HEALTH_LIFT: lifted_reason(node),
    }
    return _changes(pod.annotations, wanted)


def _changes(present: Mapping[str, str], wanted: Changes) -> Changes:
    return {key: value for key, value in wanted.items() if present.get(key) != value}


def _decide_emptied(node: Node, pod: Pod | None) -> Changes:
    """Return the change of the annotation by which a cordoned Node remembers that its slurmd pod was evicted. It is
    removed when the Node is uncordoned.
    """
    if not node.spec.unschedulable:
        return {names.ANNOTATION_EMPTIED: None}
    target = pod.condition("DisruptionTarget") if pod is not None and pod.is_deleting else None
    is_evicted = target is not None and target.status == "True" and target.reason == "EvictionByEvictionAPI"
    return {names.ANNOTATION_EMPTIED: "evicted"} if is_evicted else {}


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


def _decide_conditions(node: Node, pod: Pod | None, mark: NodeMark) -> tuple[tuple[Condition, ...], tuple[str, ...]]:
    present = {type_: found for type_ in names.SLURM_CONDITIONS if (found := node.condition(type_)) is not None}
    if pod is None:
        return (), tuple(present)
    reported = {type_: _reported(pod, type_) for type_ in names.NODE_CONDITIONS}
    if mark.is_held:
        drain = reported[names.CONDITION_CORDON]
        message = f"{drain.message} (left open: too many Nodes are already closed because of Slurm)".strip()
        reported[names.CONDITION_CORDON] = msgspec.structs.replace(drain, reason="TooManyAtOnce", message=message)
    changed = [new for type_, new in reported.items() if not says_the_same(present.get(type_), new)]
    return tuple(changed), tuple(type_ for type_ in present if type_ not in reported)


def _reported(pod: Pod, type_: str) -> Condition:
    condition = pod.condition(type_)
    if condition is None:
        return Condition(
            type=type_, status="Unknown", reason="NotReported", message=f"pod {pod.name} has no such condition yet"
        )
    return condition

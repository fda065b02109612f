"""How a drain that was set in Slurm shows on the Kubernetes Node, who owns a cordon, and what the Node remembers when
its slurmd pod is gone.

Four annotations of the Node hold this:

* `sunkpy.dev/slurm-drain`: Slurm's drain as last reported, whatever the drain policy. It stays while there is no report
  (no pod, no Slurm node, an outage), so that the next slurmd pod starts drained for the same reason.
* `sunkpy.dev/slurm-refused`: why Slurm refuses the node's slurmd. The next slurmd may still start undrained.
* `sunkpy.dev/cordoned-by: slurm`: sunkpy set the cordon, and lifts it when Slurm's drain ends.
* `sunkpy.dev/drain`: the reason of the cordon. A person takes over sunkpy's cordon by writing another reason: a Node
  cannot be cordoned twice, but the text can be changed.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from sunkpy.core import names
from sunkpy.core.health import drain_text
from sunkpy.core.model.drain_reason import cordon_reason, health_reason
from sunkpy.core.model.objects import Node, Pod, Taint
from sunkpy.core.nodeset.feasibility import departure

Changes = Mapping[str, str | None]
"""Annotation → its new value, or None to remove it."""

DEFAULT_CORDON_REASON = "node cordoned"
DRAIN_TAINT = Taint(key=names.TAINT_DRAIN, effect="NoSchedule")

_RELEASED: Changes = {names.ANNOTATION_CORDONED_BY: None, names.ANNOTATION_DRAIN: None}
_UNTOLD: Changes = {names.ANNOTATION_SLURM_DRAIN: None, names.ANNOTATION_SLURM_REFUSED: None}


class DrainPolicy(enum.StrEnum):
    """What happens to a Node when somebody other than sunkpy drains its Slurm node, in addition to the condition
    `SlurmCordon`.
    """

    CORDON = "cordon"
    CONDITION = "condition"  # nothing but the condition
    TAINT = "taint"


class MarkLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The drain policy, and whether one more Node may be cordoned or tainted now for a drain in Slurm (`has_room`). The
    limit is there so that a drain of all Slurm nodes cordons only some Nodes.
    """

    policy: DrainPolicy = DrainPolicy.CORDON
    has_room: bool = True


AS_EVER = MarkLimit()


class NodeMark(msgspec.Struct, frozen=True, kw_only=True):
    """The annotations, cordon and taint to set on a Node; None leaves a field as it is. `is_held`: the Node is not
    cordoned or tainted, because too many Nodes are already.
    """

    annotations: Changes = {}
    unschedulable: bool | None = None
    is_tainted: bool | None = None
    is_held: bool = False


def decide_node_mark(node: Node, pod: Pod | None, marking: MarkLimit) -> NodeMark:
    """Decide which annotations, cordon and taint show Slurm's drain on the Node, by the condition `SlurmCordon` of its
    slurmd pod. While that is unknown, cordon and taint stay as they are.
    """
    condition = pod.condition(names.CONDITION_CORDON) if pod is not None else None
    match condition.status if condition else "Unknown":
        case "True":
            reason = (condition.message if condition else "") or "drained in Slurm"
            # If Slurm refuses one slurmd, the next one may still start open.
            is_refused = condition is not None and condition.reason == names.REASON_INVALID
            told = names.ANNOTATION_SLURM_REFUSED if is_refused else names.ANNOTATION_SLURM_DRAIN
            return _mark(node, reason, {**_UNTOLD, told: reason}, marking)
        case "False":
            return _unmark(node, _UNTOLD)
        case _:
            return _keep(node)


def foreign_cordon(node: Node) -> str | None:
    """Return the reason of a cordon that sunkpy did not set, or that a person took over; None if there is none.

    A Node that is about to be removed counts as cordoned.
    """
    why = departure(node)
    if not node.spec.unschedulable or (_is_ours(node) and not _is_wanted_by_a_person(node)):
        return why
    return node.annotations.get(names.ANNOTATION_DRAIN) or why or DEFAULT_CORDON_REASON


def start_drained(node: Node) -> str | None:
    """Return the reason with which the Node's slurmd has to register drained; None if it may register undrained.

    A drain in Slurm that the Node remembers keeps its reason. For a cordon or a sick Node, the reason is the one that
    the syncer would write for its drain.
    """
    remembered = _remembered(node)
    if remembered is not None:
        return remembered
    why = foreign_cordon(node)
    if why is not None:
        return cordon_reason(why)
    sick = drain_text(node)
    return health_reason(sick) if sick is not None else None


def is_marked(node: Node) -> bool:
    """True if sunkpy has cordoned or tainted the Node for a drain in Slurm. The number of such Nodes is limited."""
    return (node.spec.unschedulable and _is_ours(node)) or _has_taint(node)


def with_taint(taints: tuple[Taint, ...], is_tainted: bool) -> tuple[Taint, ...]:
    """Return the Node's taints with or without sunkpy's drain taint."""
    others = tuple(taint for taint in taints if taint.key != DRAIN_TAINT.key)
    return (*others, DRAIN_TAINT) if is_tainted else others


def _mark(node: Node, reason: str, told: Changes, marking: MarkLimit) -> NodeMark:
    if marking.policy is DrainPolicy.CORDON:
        return _cordon(node, reason, told, has_room=marking.has_room)
    is_wanted = marking.policy is DrainPolicy.TAINT
    lifted = _unmark(node, told)
    is_tainted = is_wanted and (marking.has_room or _has_taint(node))
    return msgspec.structs.replace(lifted, is_tainted=is_tainted, is_held=is_wanted and not is_tainted)


def _cordon(node: Node, reason: str, told: Changes, *, has_room: bool) -> NodeMark:
    ours: Changes = {**told, names.ANNOTATION_CORDONED_BY: names.CORDONED_BY_SLURM, names.ANNOTATION_DRAIN: reason}
    if _is_wanted_by_a_person(node):
        return NodeMark(annotations={**told, names.ANNOTATION_CORDONED_BY: None}, is_tainted=False)
    if node.spec.unschedulable:
        return NodeMark(annotations=ours if _is_ours(node) else told, is_tainted=False)
    if has_room:
        return NodeMark(annotations=ours, unschedulable=True, is_tainted=False)
    return NodeMark(annotations={**(_RELEASED if _is_ours(node) else {}), **told}, is_tainted=False, is_held=True)


def _unmark(node: Node, told: Changes) -> NodeMark:
    """Return the changes that remove sunkpy's cordon and taint from the Node, and leave what others have set. `told`:
    changes of annotations that come with these.
    """
    if _is_wanted_by_a_person(node):
        return NodeMark(annotations={**told, names.ANNOTATION_CORDONED_BY: None}, is_tainted=False)
    if not _is_ours(node):
        return NodeMark(annotations=told, is_tainted=False)
    unschedulable = False if node.spec.unschedulable else None
    return NodeMark(annotations={**_RELEASED, **told}, unschedulable=unschedulable, is_tainted=False)


def _keep(node: Node) -> NodeMark:
    """Return the changes for a Node whose Slurm state is unknown: cordon and taint stay. If a person took over sunkpy's
    cordon or lifted it, the annotations that are no longer true are removed.
    """
    if _is_wanted_by_a_person(node):
        return NodeMark(annotations={names.ANNOTATION_CORDONED_BY: None})
    if _is_ours(node) and not node.spec.unschedulable:
        return NodeMark(annotations={**_RELEASED, **_UNTOLD})
    return NodeMark()


def _is_ours(node: Node) -> bool:
    return node.annotations.get(names.ANNOTATION_CORDONED_BY) == names.CORDONED_BY_SLURM


def _is_wanted_by_a_person(node: Node) -> bool:
    """True if a person took over sunkpy's cordon: the cordon's reason on the Node is not the one that sunkpy wrote."""
    told = (names.ANNOTATION_SLURM_DRAIN, names.ANNOTATION_SLURM_REFUSED)
    wrote = next((node.annotations[key] for key in told if key in node.annotations), None)
    reads = node.annotations.get(names.ANNOTATION_DRAIN)
    return node.spec.unschedulable and _is_ours(node) and None not in (wrote, reads) and wrote != reads


def _remembered(node: Node) -> str | None:
    if _is_ours(node) and not node.spec.unschedulable:
        return None  # a person has lifted our cordon while the state was unknown
    return node.annotations.get(names.ANNOTATION_SLURM_DRAIN)


def _has_taint(node: Node) -> bool:
    return any(taint.key == DRAIN_TAINT.key for taint in node.spec.taints)

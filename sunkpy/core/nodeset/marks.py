"""How a drain from Slurm's side shows on its Node, whose a cordon is, and what is remembered when the pod is gone.

Four annotations of the Node say it all. `sunkpy.dev/slurm-drain` is Slurm's drain as it was last told, whatever the
policy; it stays while nobody tells (no pod, no Slurm node, an outage), so the next slurmd pod starts drained for the
same reason. `sunkpy.dev/slurm-refused` stands in its place for what Slurm refuses of one slurmd.
`sunkpy.dev/cordoned-by: slurm` makes the cordon ours: it goes with the drain. `sunkpy.dev/drain` is the reason of the
cordon, ours or anybody's. While it is what we wrote, the cordon is ours alone; a person who writes another text there
wants the cordon too, and from then on it is theirs: nobody can cordon twice, but change a text.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from sunkpy.core import names
from sunkpy.core.model.drain_reason import cordon_reason
from sunkpy.core.model.objects import Node, Pod, Taint

Changes = Mapping[str, str | None]
"""Key → new value, or None to remove it."""

DEFAULT_CORDON_REASON = "node cordoned"
DRAIN_TAINT = Taint(key=names.TAINT_DRAIN, effect="NoSchedule")

_RELEASED: Changes = {names.ANNOTATION_CORDONED_BY: None, names.ANNOTATION_DRAIN: None}
_UNTOLD: Changes = {names.ANNOTATION_SLURM_DRAIN: None, names.ANNOTATION_SLURM_REFUSED: None}


class DrainPolicy(enum.StrEnum):
    """What a drain from Slurm's side does to its Node, beside the condition `SlurmCordon`."""

    CORDON = "cordon"
    CONDITION = "condition"  # nothing
    TAINT = "taint"


class Marking(msgspec.Struct, frozen=True, kw_only=True):
    """The policy, and whether one more Node may be cordoned or tainted: a drain of all nodes takes only some."""

    policy: DrainPolicy = DrainPolicy.CORDON
    has_room: bool = True


AS_EVER = Marking()


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be so on the Node: annotations, cordon and taint (None: as it is); `is_held`: there was no room."""

    annotations: Changes = {}
    unschedulable: bool | None = None
    is_tainted: bool | None = None
    is_held: bool = False


def decide_mark(node: Node, pod: Pod | None, marking: Marking) -> Mark:
    """By what the pod tells of Slurm: drained there by others, not drained, or not known."""
    condition = pod.condition(names.CONDITION_CORDON) if pod is not None else None
    match condition.status if condition else "Unknown":
        case "True":
            reason = (condition.message if condition else "") or "drained in Slurm"
            # What Slurm refuses of one slurmd says nothing of the next one, which may start open.
            is_refused = condition is not None and condition.reason == names.REASON_INVALID
            told = names.ANNOTATION_SLURM_REFUSED if is_refused else names.ANNOTATION_SLURM_DRAIN
            return _mark(node, reason, {**_UNTOLD, told: reason}, marking)
        case "False":
            return _unmark(node, _UNTOLD)
        case _:
            return _keep(node)


def foreign_cordon(node: Node) -> str | None:
    """Why somebody else than sunkpy wants the Node cordoned; None when nobody does."""
    if not node.spec.unschedulable or (_is_ours(node) and not _is_wanted_by_a_person(node)):
        return None
    return node.annotations.get(names.ANNOTATION_DRAIN) or DEFAULT_CORDON_REASON


def start_drained(node: Node) -> str | None:
    """With which reason a slurmd on this Node has to register drained; None: open.

    A drain from Slurm's side comes first, as it stood; for a cordon the reason is the one the syncer would write.
    """
    remembered = _remembered(node)
    if remembered is not None:
        return remembered
    why = foreign_cordon(node)
    return cordon_reason(why) if why is not None else None


def is_marked(node: Node) -> bool:
    """Cordoned or tainted by us: it counts towards the cap."""
    return (node.spec.unschedulable and _is_ours(node)) or _has_taint(node)


def with_taint(taints: tuple[Taint, ...], is_tainted: bool) -> tuple[Taint, ...]:
    """The Node's taints with or without ours."""
    others = tuple(taint for taint in taints if taint.key != DRAIN_TAINT.key)
    return (*others, DRAIN_TAINT) if is_tainted else others


def _mark(node: Node, reason: str, told: Changes, marking: Marking) -> Mark:
    if marking.policy is DrainPolicy.CORDON:
        return _cordon(node, reason, told, has_room=marking.has_room)
    is_wanted = marking.policy is DrainPolicy.TAINT
    lifted = _unmark(node, told)
    is_tainted = is_wanted and (marking.has_room or _has_taint(node))
    return msgspec.structs.replace(lifted, is_tainted=is_tainted, is_held=is_wanted and not is_tainted)


def _cordon(node: Node, reason: str, told: Changes, *, has_room: bool) -> Mark:
    ours: Changes = {**told, names.ANNOTATION_CORDONED_BY: names.CORDONED_BY_SLURM, names.ANNOTATION_DRAIN: reason}
    if _is_wanted_by_a_person(node):
        return Mark(annotations={**told, names.ANNOTATION_CORDONED_BY: None}, is_tainted=False)
    if node.spec.unschedulable:
        return Mark(annotations=ours if _is_ours(node) else told, is_tainted=False)
    if has_room:
        return Mark(annotations=ours, unschedulable=True, is_tainted=False)
    return Mark(annotations={**(_RELEASED if _is_ours(node) else {}), **told}, is_tainted=False, is_held=True)


def _unmark(node: Node, told: Changes) -> Mark:
    """Take back what is ours, and only that."""
    if _is_wanted_by_a_person(node):
        return Mark(annotations={**told, names.ANNOTATION_CORDONED_BY: None}, is_tainted=False)
    if not _is_ours(node):
        return Mark(annotations=told, is_tainted=False)
    unschedulable = False if node.spec.unschedulable else None
    return Mark(annotations={**_RELEASED, **told}, unschedulable=unschedulable, is_tainted=False)


def _keep(node: Node) -> Mark:
    """Not known lifts nothing; but a person may take over our cordon, or lift it, and then it is forgotten."""
    if _is_wanted_by_a_person(node):
        return Mark(annotations={names.ANNOTATION_CORDONED_BY: None})
    if _is_ours(node) and not node.spec.unschedulable:
        return Mark(annotations={**_RELEASED, **_UNTOLD})
    return Mark()


def _is_ours(node: Node) -> bool:
    return node.annotations.get(names.ANNOTATION_CORDONED_BY) == names.CORDONED_BY_SLURM


def _is_wanted_by_a_person(node: Node) -> bool:
    """Our cordon, whose reason is no longer the one that we wrote."""
    told = (names.ANNOTATION_SLURM_DRAIN, names.ANNOTATION_SLURM_REFUSED)
    wrote = next((node.annotations[key] for key in told if key in node.annotations), None)
    reads = node.annotations.get(names.ANNOTATION_DRAIN)
    return node.spec.unschedulable and _is_ours(node) and None not in (wrote, reads) and wrote != reads


def _remembered(node: Node) -> str | None:
    if _is_ours(node) and not node.spec.unschedulable:
        return None  # a person has lifted our cordon while nobody could tell
    return node.annotations.get(names.ANNOTATION_SLURM_DRAIN)


def _has_taint(node: Node) -> bool:
    return any(taint.key == DRAIN_TAINT.key for taint in node.spec.taints)

"""The mirror between slurmd pods and Slurm nodes: one decision per name, both directions.

Ownership ends every loop. Kubernetes' causes become drains whose reason starts with `k8s: `; only those are ever
changed or lifted. What anybody else has set, DRAIN, FAIL or DOWN, is told to the pod, and what the operator makes of it
(a cordon of its own) is not told back. When Slurm loses it with its record of the node, it is put back (`lost_drain`).

Fail closed. When Slurm's answer is stale or not to be believed, nothing is written to Slurm and the pod is only told
that nothing is known. What cannot be undone (a pod that may go, a Slurm node that is forgotten) needs two answers of
Slurm that agree, both asked for after the last write.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sunkpy.core import names
from sunkpy.core.mirror import report
from sunkpy.core.mirror.actions import (
    DeleteSlurmNode,
    DrainNode,
    MirrorAction,
    PatchPod,
    RestoreDrain,
    SetAddress,
    SetComment,
    UndrainNode,
    as_write,
)
from sunkpy.core.mirror.drain_cause import UNREADY_GRACE_S, DrainCause, Want, drain_cause
from sunkpy.core.mirror.lost_drain import lost_drain
from sunkpy.core.mirror.view import Answer, Claim, Memory, View
from sunkpy.core.model.objects import Condition, Pod
from sunkpy.core.model.states import NodeComment, SlurmNode

STALE_AFTER_S = 10.0
"""Age of an answer from which on it is no longer shown."""
ACT_WITHIN_S = 5.0
"""Age of an answer up to which it may be acted on."""
SILENCE_GRACE_S = 10.0
"""Slurm sets NOT_RESPONDING for half a second after each UNDRAIN; only longer silence is told."""
FOREIGN_DRAIN_KEPT_S = 600.0
"""How long a node that somebody else holds outlives its pod: a new pod on the same machine finds the drain again."""
RENEW_RECEIPT_S = 10.0
"""A receipt that stands is written anew with its time, so that the operator may disbelieve old ones."""

REPEAT_AFTER_S = 2.0
"""A write that Slurm took and does not show is not repeated sooner."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, what to remember, and when to look again although nothing changes.

    `wants_next_answer`: decide again with Slurm's next answer. `again_s`: decide again after so many seconds.
    """

    actions: tuple[MirrorAction, ...]
    memory: Memory
    wants_next_answer: bool = False
    again_s: float | None = None


def decide_mirror(view: View, now_s: float) -> Decision:
    """What to do about one name. Reads top to bottom: time, trust, towards the pod, towards Slurm."""
    memory = _note_times(view, now_s)
    answer = view.answer
    if answer is None or not answer.is_trusted or now_s - answer.at_s > STALE_AFTER_S:
        return _say_unknown(view, memory)
    if answer.at_s < memory.wrote_at_s:
        return Decision(actions=(), memory=memory, wants_next_answer=True)
    may_act = now_s - answer.at_s <= ACT_WITHIN_S
    cause = drain_cause(view.pod, unready_for_s=_since(memory.unready_since_s, now_s))
    memory = _note_drained(view.pod, answer, memory)
    memory = _note_deletable(view, answer, memory, now_s)
    actions: list[MirrorAction] = []
    if view.pod is not None:
        told = _tell_pod(view.pod, answer, memory, now_s)
        memory = _note_receipt(told, memory, now_s)
        actions += told
    if may_act and answer.node is not None:
        may_delete = _is_proved(memory.deletable, answer.number)
        actions += _tell_slurm(view, answer.node, cause, may_delete=may_delete)
    due = tuple(action for action in actions if not _is_repetition(action, memory, now_s))
    return Decision(
        actions=due,
        memory=memory,
        wants_next_answer=_is_open(memory, answer.number) or not may_act or not view.are_pods_known,
        again_s=REPEAT_AFTER_S if len(due) < len(actions) else _next_deadline_s(view, memory, now_s),
    )


def after_writing(memory: Memory, actions: Iterable[MirrorAction], now_s: float) -> Memory:
    """The memory once the actions have been carried out."""
    wrote = tuple(write for write in map(as_write, actions) if write is not None)
    return msgspec.structs.replace(memory, wrote_at_s=now_s, wrote=wrote)


# ------------------------------------------------------------------------------------------------------------- memory


def _note_times(view: View, now_s: float) -> Memory:
    """Start the clocks of what has begun, stop those of what is over.

    A pod counts as unready only once Slurm has its node: before, it is starting, and there is nothing to drain.
    """
    memory, pod = view.memory, view.pod
    node = view.answer.node if view.answer else None
    is_unready = pod is not None and node is not None and not pod.is_condition_true("ContainersReady")
    is_podless = pod is None and view.are_pods_known
    is_silent = node is not None and node.is_not_responding
    return msgspec.structs.replace(
        memory,
        silent_since_s=_clock(memory.silent_since_s, is_silent, now_s),
        unready_since_s=_clock(memory.unready_since_s, is_unready, now_s),
        podless_since_s=_clock(memory.podless_since_s, is_podless, now_s),
    )


def _note_drained(pod: Pod | None, answer: Answer, memory: Memory) -> Memory:
    """Claim that the token's node is empty and closed, or that there is none; drop the claim when it is not so."""
    token = pod.annotations.get(names.ANNOTATION_PENDING_DELETION) if pod else None
    holds = token is not None and (answer.node is None or answer.node.is_drained)
    return msgspec.structs.replace(memory, drained=_claim(memory.drained, token or "", holds, answer.number))


def _note_deletable(view: View, answer: Answer, memory: Memory, now_s: float) -> Memory:
    """Claim that the node is ours, its pod gone, and nothing on it."""
    node = answer.node
    owner = node.owner if node else None
    holds = (
        node is not None
        and owner is not None
        and owner.namespace == view.namespace
        and view.pod is None
        and view.are_pods_known
        and not node.is_busy
        and (node.is_drained_by_us or (node.is_held_by_others and _kept_long_enough(memory, now_s)))
    )
    uid = owner.uid if owner else ""
    return msgspec.structs.replace(memory, deletable=_claim(memory.deletable, uid, holds, answer.number))


def _note_receipt(told: tuple[PatchPod, ...], memory: Memory, now_s: float) -> Memory:
    if not any(patch.renews_receipt for patch in told):
        return memory
    return msgspec.structs.replace(memory, receipt_at_s=now_s)


def _kept_long_enough(memory: Memory, now_s: float) -> bool:
    return _since(memory.podless_since_s, now_s) >= FOREIGN_DRAIN_KEPT_S


def _claim(old: Claim | None, token: str, holds: bool, number: int) -> Claim | None:
    if not holds:
        return None
    return old if old is not None and old.token == token else Claim(token=token, number=number)


def _is_proved(claim: Claim | None, number: int) -> bool:
    return claim is not None and number > claim.number


def _is_open(memory: Memory, number: int) -> bool:
    """Some claim waits for another answer."""
    return any(claim is not None and number <= claim.number for claim in (memory.drained, memory.deletable))


def _is_repetition(action: MirrorAction, memory: Memory, now_s: float) -> bool:
    return as_write(action) in memory.wrote and now_s - memory.wrote_at_s < REPEAT_AFTER_S


def _clock(since_s: float | None, is_on: bool, now_s: float) -> float | None:
    if not is_on:
        return None
    return now_s if since_s is None else since_s


def _since(since_s: float | None, now_s: float) -> float:
    return 0.0 if since_s is None else now_s - since_s


def _next_deadline_s(view: View, memory: Memory, now_s: float) -> float | None:
    """Seconds until one of the running clocks makes a difference."""
    node = view.answer.node if view.answer else None
    clocks = (
        (memory.silent_since_s, SILENCE_GRACE_S),
        (memory.unready_since_s, UNREADY_GRACE_S),
        (memory.podless_since_s if node is not None and node.is_held_by_others else None, FOREIGN_DRAIN_KEPT_S),
        (memory.receipt_at_s if memory.drained is not None else None, RENEW_RECEIPT_S),
    )
    left = [since_s + grace_s - now_s for since_s, grace_s in clocks if since_s is not None]
    return min((seconds for seconds in left if seconds > 0), default=None)


# ------------------------------------------------------------------------------------------------------- towards Slurm


def _tell_slurm(view: View, node: SlurmNode, cause: DrainCause, *, may_delete: bool) -> list[MirrorAction]:
    """Restore, drain, lift, comment, readdress, delete: at most one change of the drain per pass.

    The comment comes after a lost drain is put back, for it is what a new record is known by not having.
    """
    if "FUTURE" in node.state:
        return []
    if view.pod is None:
        return _tell_slurm_of_no_pod(view, node, cause, may_delete=may_delete)
    actions: list[MirrorAction] = []
    lost = lost_drain(view.pod, node)
    if lost is not None:
        actions.append(RestoreDrain(name=node.name, reason=lost))
    comment = _comment(view.pod).encode()
    is_free = not node.comment or node.owner is not None
    if view.pod.spec.node_name and node.is_registered and is_free and node.comment != comment:
        actions.append(SetComment(name=node.name, comment=comment))
    if _is_sought_elsewhere(view.pod, node):
        actions.append(SetAddress(name=node.name, address=view.pod.status.pod_ip))
    if cause.want is Want.DRAIN and lost is None:
        actions += _drain(node, cause)
    elif cause.want is Want.LIFT and node.is_drained_by_us and view.are_pods_known:
        actions.append(UndrainNode(name=node.name, pod=view.pod))
    return actions


def _is_sought_elsewhere(pod: Pod, node: SlurmNode) -> bool:
    """Nobody answers slurmctld because it looks where an earlier pod was.

    slurmctld saves its state some seconds late: one that dies after a slurmd has registered forgets its address, and
    slurmd registers once.
    """
    is_there = bool(pod.status.pod_ip) and pod.is_condition_true("ContainersReady")
    is_missed = node.is_not_responding or node.is_down
    return is_there and is_missed and bool(node.address) and node.address != pod.status.pod_ip


def _tell_slurm_of_no_pod(view: View, node: SlurmNode, cause: DrainCause, *, may_delete: bool) -> list[MirrorAction]:
    owner = node.owner
    if owner is None or owner.namespace != view.namespace or not view.are_pods_known:
        return []
    if may_delete:
        return [DeleteSlurmNode(name=node.name, reason=node.reason, is_announced=_was_announced(node))]
    if node.is_drained_by_us and _was_announced(node):
        return []  # keep the reason that tells why the pod went
    return _drain(node, cause)


def _was_announced(node: SlurmNode) -> bool:
    return node.reason.startswith(f"{names.REASON_PREFIX}pod pending deletion")


def _drain(node: SlurmNode, cause: DrainCause) -> list[MirrorAction]:
    """Nothing when it is drained for this cause already, or by others: their reason stays."""
    if node.is_held_by_others or (node.is_drain and node.reason == cause.reason):
        return []
    is_announced = cause.is_announced or node.is_drain
    return [DrainNode(name=node.name, reason=cause.reason, is_announced=is_announced)]


def _comment(pod: Pod) -> NodeComment:
    return NodeComment(
        node=pod.spec.node_name,
        namespace=pod.metadata.namespace,
        pod=pod.name,
        uid=pod.uid,
        nodeset=pod.labels.get(names.LABEL_NODESET, ""),
    )


# ----------------------------------------------------------------------------------------------------- towards the pod


def _say_unknown(view: View, memory: Memory) -> Decision:
    """Nothing is known: no claim survives, `drained` is taken back, and no other word is said."""
    memory = msgspec.structs.replace(memory, drained=None, deletable=None, silent_since_s=None)
    if view.pod is None:
        return Decision(actions=(), memory=memory, wants_next_answer=True)
    if view.answer is not None and not view.answer.is_trusted:
        why = "Slurm does not list its registered nodes any more: did slurmctld lose its state? Nothing is changed"
    else:
        why = "Slurm cannot be read: nothing is changed until slurmrestd and slurmctld answer (see the syncer's log)"
    patch = _patch(view.pod, {names.ANNOTATION_DRAINED: None}, report.unknown_conditions(why))
    return Decision(actions=patch, memory=memory, wants_next_answer=True)


def _tell_pod(pod: Pod, answer: Answer, memory: Memory, now_s: float) -> tuple[PatchPod, ...]:
    node = answer.node
    silent_for_s = _since(memory.silent_since_s, now_s)
    is_silent = memory.silent_since_s is not None and silent_for_s >= SILENCE_GRACE_S
    conditions = report.known_conditions(node, is_silent=is_silent)
    annotations = report.slurm_annotations(node)
    if lost_drain(pod, node) is not None:
        conditions = tuple(c for c in conditions if c.type != names.CONDITION_CORDON)
        del annotations[names.ANNOTATION_DRAIN]
    if memory.silent_since_s is None or is_silent:
        conditions += (report.registered_condition(node),)
    claim = memory.drained
    is_drained = claim is not None and _is_proved(claim, answer.number)
    token = claim.token if claim is not None and is_drained else None
    annotations[names.ANNOTATION_DRAINED] = token
    renews = token is not None and _is_receipt_due(pod, token, now_s - memory.receipt_at_s)
    return _patch(pod, annotations, conditions, renews_receipt=renews)


def _is_receipt_due(pod: Pod, token: str, age_s: float) -> bool:
    stands = pod.annotations.get(names.ANNOTATION_DRAINED) == token and names.ANNOTATION_DRAINED_AT in pod.annotations
    return not stands or age_s >= RENEW_RECEIPT_S


def _patch(
    pod: Pod, annotations: dict[str, str | None], conditions: tuple[Condition, ...], *, renews_receipt: bool = False
) -> tuple[PatchPod, ...]:
    new_annotations = report.changed(pod, annotations)
    new_conditions = report.differing(pod, conditions)
    if not new_annotations and not new_conditions and not renews_receipt:
        return ()
    patch = PatchPod(pod=pod, annotations=new_annotations, conditions=new_conditions, renews_receipt=renews_receipt)
    return (patch,)

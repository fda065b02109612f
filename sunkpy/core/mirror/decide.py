"""The mirror: for each node name, decide what to write to its Slurm node and to its slurmd pod.

sunkpy changes and lifts the drains that it set itself: their reason starts with `k8s: `. A DRAIN, FAIL or DOWN that
somebody else set is shown on the pod and otherwise left alone, with two exceptions: such a DRAIN is lifted if the
operator allows it for exactly its reason (`core.health`), and it is set again if Slurm has lost it with its record of
the node (`lost_drain`). The operator cordons the Node for it, and that cordon is not sent back to Slurm. A node that
slurmctld set DOWN by itself is resumed when its slurmd answers again (`given_up`).

The mirror fails closed. With a stale or implausible answer it writes nothing to Slurm, and the pod's status stays. It
withdraws only two things, because others act on them: the condition that no job runs on a closed node, and a receipt
(the annotation that answers a removal token: no job is on the node, or only services are). A step that cannot be undone
(a pod is removed, a Slurm node is deleted) needs two answers of Slurm that agree, both asked for after the last write.

Dozens of jobs start and end each second, and little depends on the jobs of an open node: only which pods are removed
first. So the pod of an open node shows that jobs came or went only after a delay. The delay keeps the pod writes of the
whole cluster below `JOB_STATE_PER_S`. The pod of a closed node shows it at once.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sunkpy.core import names
from sunkpy.core.mirror import report, services
from sunkpy.core.mirror.actions import (
    ClearReason,
    DeleteSlurmNode,
    DrainNode,
    LiftDrain,
    MirrorAction,
    PatchPod,
    RestoreDrain,
    ResumeNode,
    SetAddress,
    SetComment,
    SetTopology,
    UndrainNode,
    as_write,
)
from sunkpy.core.mirror.drain_cause import UNREADY_GRACE_S, DrainCause, Want, drain_cause
from sunkpy.core.mirror.given_up import is_given_up
from sunkpy.core.mirror.lost_drain import lost_drain
from sunkpy.core.mirror.view import MirrorMemory, Sighting, SlurmAnswer, View
from sunkpy.core.model.objects import Condition, Pod
from sunkpy.core.model.states import NodeComment, SlurmNode

STALE_AFTER_S = 10.0
"""An answer of Slurm is stale when it is this much older than its `SlurmAnswer.turn_s`."""
ACT_WITHIN_S = 5.0
"""The mirror writes to Slurm only on an answer at most this much older than its `SlurmAnswer.turn_s`."""
JOB_STATE_HELD_S = 5.0
"""The least delay before the pod of an open node shows that jobs came or went; most shorter jobs are never shown."""
JOB_STATE_PER_S = 20.0
"""The most pods of open nodes, in the whole cluster, that are written each second because jobs came or went."""
SILENCE_GRACE_S = 10.0
"""The pod shows NOT_RESPONDING only after Slurm has shown it for this long: Slurm sets it for half a second after each
UNDRAIN.
"""
FOREIGN_DRAIN_KEPT_S = 600.0
"""How long a Slurm node that somebody else drained is kept after its pod is gone: a new pod on the machine finds the
drain again.
"""
RENEW_RECEIPT_S = 10.0
"""The time of a valid receipt is written again after this long, so that the operator can ignore old receipts."""

REPEAT_AFTER_S = 2.0
"""The pause before a write is repeated that Slurm accepted but does not show."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What the syncer does for one node name now, and when it decides again if nothing changes.

    `memory`: what the next decision is given. `wants_next_answer`: decide again with Slurm's next answer. `again_s`:
    decide again after that many seconds. `question`: ask Slurm this, put the answer into the memory (`after_asking`),
    and decide again.
    """

    actions: tuple[MirrorAction, ...]
    memory: MirrorMemory
    wants_next_answer: bool = False
    again_s: float | None = None
    question: services.ServiceQuestion | None = None


def decide_mirror(view: View, now_s: float) -> Decision:
    """Decide what to write to the Slurm node and to the slurmd pod of one name.

    First note since when the node is silent or its pod unready or gone, then judge Slurm's answer, then plan the
    writes. With an answer that is missing, old or not trusted, nothing is written to Slurm.
    """
    memory = _note_times(view, now_s)
    answer = view.answer
    if answer is None or not answer.is_trusted or now_s - answer.at_s > STALE_AFTER_S + answer.turn_s:
        return _withdraw(view, memory)
    if answer.at_s < memory.wrote_at_s:
        return Decision(actions=(), memory=memory, wants_next_answer=True)
    may_act = now_s - answer.at_s <= ACT_WITHIN_S + answer.turn_s
    cause = drain_cause(view.pod, unready_for_s=_since(memory.unready_since_s, now_s))
    memory = _note_drained(view.pod, answer, memory)
    memory = _note_deletable(view, answer, memory, now_s)
    question = services.question_of(view.pod, answer.node)
    memory = msgspec.structs.replace(memory, answered=memory.answered if question is not None else None)
    actions: list[MirrorAction] = []
    if view.pod is not None:
        patch = _pod_patch(view, view.pod, answer, memory, now_s)
        memory = _note_jobs(view.pod, patch, view.slurm_nodes, memory, now_s)
        patch = patch if memory.unwritten_since_s is None else None
        memory = _note_receipt(patch, memory, now_s)
        actions += [patch] if patch is not None else []
    if may_act and answer.node is not None:
        may_delete = _is_proved(memory.deletable, answer.number)
        actions += _slurm_actions(view, answer.node, cause, may_delete=may_delete)
    due = tuple(action for action in actions if not _is_repetition(action, memory, now_s))
    ask_in_s = None
    if question is not None and may_act:
        ask_in_s = services.due_in_s(memory.answered, question, now_s, slurm_nodes=view.slurm_nodes)
    return Decision(
        actions=due,
        memory=memory,
        wants_next_answer=_is_open(memory, answer.number) or not may_act or not view.are_pods_known,
        again_s=REPEAT_AFTER_S if len(due) < len(actions) else _next_deadline_s(view, memory, ask_in_s, now_s),
        question=question if ask_in_s is not None and ask_in_s <= 0 else None,
    )


def after_writing(memory: MirrorMemory, actions: Iterable[MirrorAction], now_s: float) -> MirrorMemory:
    """Return the memory after these actions were carried out. What Slurm's answers have shown (`drained`, `deletable`,
    `answered`) is dropped, because the writes may have changed it.
    """
    wrote = tuple(write for write in map(as_write, actions) if write is not None)
    return msgspec.structs.replace(memory, wrote_at_s=now_s, wrote=wrote, drained=None, deletable=None, answered=None)


def after_asking(
    memory: MirrorMemory, question: services.ServiceQuestion, *, is_yes: bool, at_s: float
) -> MirrorMemory:
    """Return the memory with Slurm's answer to this question about the jobs on a node. `at_s`: when the question was
    sent.
    """
    answered = services.after_answer(memory.answered, question, is_yes=is_yes, at_s=at_s)
    return msgspec.structs.replace(memory, answered=answered)


# ------------------------------------------------------------------------------------------------------------- memory


def _note_times(view: View, now_s: float) -> MirrorMemory:
    """Return the memory with the times since when the node is silent, its pod unready, or its pod gone. A time is set
    when this state begins, and removed when it ends.

    A pod counts as unready only once Slurm has its node: before, the pod is starting, and there is nothing to drain.
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


def _note_drained(pod: Pod | None, answer: SlurmAnswer, memory: MirrorMemory) -> MirrorMemory:
    """Return the memory with the finding that the Slurm node is drained and idle, or gone, although its pod exists and
    has a token. The finding is dropped when this is no longer so.

    The token is the pod's removal token, or else the token by which the operator asks about a sick node's drain.
    """
    asked = (names.ANNOTATION_PENDING_DELETION, names.ANNOTATION_DRAIN_ASKED)
    token = next((pod.annotations[key] for key in asked if key in pod.annotations), None) if pod else None
    holds = token is not None and (answer.node is None or answer.node.is_drained)
    return msgspec.structs.replace(memory, drained=_finding(memory.drained, token or "", holds, answer.number))


def _note_deletable(view: View, answer: SlurmAnswer, memory: MirrorMemory, now_s: float) -> MirrorMemory:
    """Return the memory with the finding that the Slurm node may be deleted: sunkpy made it, its pod is gone, and no
    job is on it. It must be drained by sunkpy, or closed by somebody else and without a pod for `FOREIGN_DRAIN_KEPT_S`.
    The finding is dropped when this is no longer so.
    """
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
    return msgspec.structs.replace(memory, deletable=_finding(memory.deletable, uid, holds, answer.number))


def _note_jobs(pod: Pod, patch: PatchPod | None, slurm_nodes: int, memory: MirrorMemory, now_s: float) -> MirrorMemory:
    """Return the memory with the time since when a patch of the pod waits that only shows that jobs came or went. The
    time is removed when this patch is due, or when another change has to be written to the pod anyway.
    """
    since_s = memory.unwritten_since_s
    if patch is not None and not report.can_wait(pod, patch):
        since_s = None
    elif since_s is None:
        since_s = now_s if patch is not None else None
    elif now_s - since_s >= job_state_held_s(slurm_nodes):
        since_s = None
    return msgspec.structs.replace(memory, unwritten_since_s=since_s)


def job_state_held_s(slurm_nodes: int) -> float:
    """Return for how many seconds the pod of an open node does not show that jobs came or went.

    Each pod is written at most once in this time, so all pods together at most `JOB_STATE_PER_S` times a second.
    """
    return max(JOB_STATE_HELD_S, slurm_nodes / JOB_STATE_PER_S)


def _note_receipt(patch: PatchPod | None, memory: MirrorMemory, now_s: float) -> MirrorMemory:
    if patch is None or not patch.renews_receipt:
        return memory
    return msgspec.structs.replace(memory, receipt_at_s=now_s)


def _kept_long_enough(memory: MirrorMemory, now_s: float) -> bool:
    return _since(memory.podless_since_s, now_s) >= FOREIGN_DRAIN_KEPT_S


def _finding(old: Sighting | None, token: str, holds: bool, number: int) -> Sighting | None:
    if not holds:
        return None
    return old if old is not None and old.token == token else Sighting(token=token, number=number)


def _is_proved(finding: Sighting | None, number: int) -> bool:
    return finding is not None and number > finding.number


def _is_open(memory: MirrorMemory, number: int) -> bool:
    """True if a finding in the memory still needs an answer of Slurm that is newer than answer `number`."""
    return any(finding is not None and number <= finding.number for finding in (memory.drained, memory.deletable))


def _is_repetition(action: MirrorAction, memory: MirrorMemory, now_s: float) -> bool:
    return as_write(action) in memory.wrote and now_s - memory.wrote_at_s < REPEAT_AFTER_S


def _clock(since_s: float | None, is_on: bool, now_s: float) -> float | None:
    if not is_on:
        return None
    return now_s if since_s is None else since_s


def _since(since_s: float | None, now_s: float) -> float:
    return 0.0 if since_s is None else now_s - since_s


def _next_deadline_s(view: View, memory: MirrorMemory, ask_in_s: float | None, now_s: float) -> float | None:
    """Return the seconds until the next waiting time in the memory ends, or until Slurm has to be asked about jobs on
    the node (`ask_in_s`), whichever is sooner; None if neither is to come.
    """
    node = view.answer.node if view.answer else None
    clocks = (
        (memory.silent_since_s, SILENCE_GRACE_S),
        (memory.unready_since_s, UNREADY_GRACE_S),
        (memory.podless_since_s if node is not None and node.is_held_by_others else None, FOREIGN_DRAIN_KEPT_S),
        (memory.receipt_at_s if memory.drained is not None else None, RENEW_RECEIPT_S),
        (memory.unwritten_since_s, job_state_held_s(view.slurm_nodes)),
    )
    left = [since_s + grace_s - now_s for since_s, grace_s in clocks if since_s is not None]
    left += [ask_in_s] if ask_in_s is not None else []
    return min((seconds for seconds in left if seconds > 0), default=None)


# ------------------------------------------------------------------------------------------------------- towards Slurm


def _slurm_actions(view: View, node: SlurmNode, cause: DrainCause, *, may_delete: bool) -> list[MirrorAction]:
    """Plan the writes to one Slurm node: at most one of them sets, lifts or restores a drain or deletes the node.

    A lost drain is set again before the comment is written: Slurm's record counts as new only while it has no comment.
    """
    if "FUTURE" in node.state:
        return []
    if view.pod is None:
        return _slurm_actions_without_pod(view, node, cause, may_delete=may_delete)
    actions: list[MirrorAction] = []
    lost = lost_drain(view.pod, node)
    if lost is not None:
        actions.append(RestoreDrain(name=node.name, reason=lost))
    comment = _comment(view.pod).encode()
    is_free = not node.comment or node.owner is not None
    if view.pod.spec.node_name and node.is_registered and is_free and node.comment != comment:
        actions.append(SetComment(name=node.name, comment=comment))
    if _has_old_address(view.pod, node):
        actions.append(SetAddress(name=node.name, address=view.pod.status.pod_ip))
    if cause.want is Want.DRAIN and lost is None:
        actions += _drain(node, cause)
    elif cause.want is Want.LIFT and _has_new_slurmd(view, node):
        actions += _lift(node, view.pod)
    if view.topology is not None and node.is_registered and node.topology != view.topology:
        actions.append(SetTopology(name=node.name, topology=view.topology))
    return actions


def _lift(node: SlurmNode, pod: Pod) -> list[MirrorAction]:
    """Return the write that lets the node take jobs again: lift our drain, resume a node that slurmctld set DOWN by
    itself, or lift somebody else's drain if the operator allows exactly its reason; or the write that removes what an
    earlier lift left. Empty if none of these applies.
    """
    if node.is_drained_by_us:
        return [UndrainNode(name=node.name, pod=pod)]
    if is_given_up(node):
        return [ResumeNode(name=node.name, pod=pod, reason=node.reason)]
    leave = pod.annotations.get(names.ANNOTATION_HEALTH_LIFT)
    if leave is not None and node.is_drained_by_others_for(leave):
        return [LiftDrain(name=node.name, reason=leave, pod=pod)]
    return [ClearReason(name=node.name)] if node.has_reason_left else []


def _has_new_slurmd(view: View, node: SlurmNode) -> bool:
    """True if the slurmd that Slurm knows is in the present pod, not in an earlier one. False while the pod watch is
    down.
    """
    return view.pod is not None and report.is_of_pod(node, view.pod, view.today) and view.are_pods_known


def _has_old_address(pod: Pod, node: SlurmNode) -> bool:
    """True if slurmctld still has the address of an earlier pod, and so gets no answer from slurmd.

    slurmctld saves its state some seconds late. If it dies after a slurmd has registered, the address is lost, and
    slurmd registers only once.
    """
    is_there = bool(pod.status.pod_ip) and pod.is_condition_true("ContainersReady")
    is_missed = node.is_not_responding or node.is_down
    return is_there and is_missed and bool(node.address) and node.address != pod.status.pod_ip


def _slurm_actions_without_pod(
    view: View, node: SlurmNode, cause: DrainCause, *, may_delete: bool
) -> list[MirrorAction]:
    owner = node.owner
    if owner is None or owner.namespace != view.namespace or not view.are_pods_known:
        return []
    if may_delete:
        return [DeleteSlurmNode(name=node.name, reason=node.reason, is_announced=_was_announced(node))]
    if node.is_drained_by_us and _was_announced(node):
        return []  # keep the reason why the pod went
    return _drain(node, cause)


def _was_announced(node: SlurmNode) -> bool:
    return node.reason.startswith(f"{names.REASON_PREFIX}pod pending deletion")


def _drain(node: SlurmNode, cause: DrainCause) -> list[MirrorAction]:
    """Return the write that drains the node; empty if the node is drained for this cause already, or if somebody else
    has closed it, whose reason stays.
    """
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


def _withdraw(view: View, memory: MirrorMemory) -> Decision:
    """Return the decision while Slurm's state is unknown: drop the findings, and withdraw from the pod the annotations
    and the condition by which others would remove or evict it.

    `sunkpy.syncer.outage` reports the outage once for the cluster, not on each pod. `wants_next_answer` is set only if
    the answer is missing or late: when answers are trusted again, the syncer decides about all names anyway.
    """
    memory = msgspec.structs.replace(
        memory, drained=None, deletable=None, answered=None, silent_since_s=None, unwritten_since_s=None
    )
    is_late = view.answer is None or view.answer.is_trusted
    patch = None
    if view.pod is not None:
        patch = _patch(view.pod, dict.fromkeys(report.RECEIPTS), report.withdrawn_conditions(view.pod))
    return Decision(actions=() if patch is None else (patch,), memory=memory, wants_next_answer=is_late)


def _pod_patch(view: View, pod: Pod, answer: SlurmAnswer, memory: MirrorMemory, now_s: float) -> PatchPod | None:
    node, place = answer.node, view.place
    silent_for_s = _since(memory.silent_since_s, now_s)
    is_silent = memory.silent_since_s is not None and silent_for_s >= SILENCE_GRACE_S
    conditions = report.known_conditions(node, is_silent=is_silent)
    annotations = report.slurm_annotations(node)
    if place is not None:
        annotations[names.ANNOTATION_TOPOLOGY] = place or None
    if lost_drain(pod, node) is not None:
        conditions = tuple(c for c in conditions if c.type != names.CONDITION_CORDON)
        del annotations[names.ANNOTATION_DRAIN]
    if memory.silent_since_s is None or is_silent:
        conditions += (report.registered_condition(pod, node, view.today),)
    receipt = _receipt(pod, answer, memory, now_s)
    annotations |= dict.fromkeys(report.RECEIPTS)
    if receipt is None:
        return _patch(pod, annotations, conditions)
    patch = _patch(pod, annotations | {receipt.key: receipt.token}, conditions)
    if not _is_receipt_due(pod, receipt, now_s - memory.receipt_at_s):
        return patch
    patch = patch or PatchPod(pod=pod, annotations={}, conditions=())
    age_s = max(0.0, now_s - receipt.at_s)
    return msgspec.structs.replace(patch, receipt_age_s=age_s, receipt_time=receipt.time_key)


class _Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The syncer's answer, on the slurmd pod, to a token: no job is on the node, or only services. Annotation `key`
    gets the token, and annotation `time_key` the time at which Slurm was asked (`at_s`).
    """

    key: str
    time_key: str
    token: str
    at_s: float


def _receipt(pod: Pod, answer: SlurmAnswer, memory: MirrorMemory, now_s: float) -> _Receipt | None:
    """Return the confirmation that Slurm's answers prove: no job is on the node, or only services (jobs of pods without
    processes) are; None if they do not prove either.
    """
    finding, answered = memory.drained, memory.answered
    if finding is not None and _is_proved(finding, answer.number):
        key, time_key = names.ANNOTATION_DRAINED, names.ANNOTATION_DRAINED_AT
        return _Receipt(key=key, time_key=time_key, token=finding.token, at_s=answer.at_s)
    if answered is not None and services.is_proved(answered, services.question_of(pod, answer.node), now_s):
        key, time_key = names.ANNOTATION_REPLACEABLE, names.ANNOTATION_REPLACEABLE_AT
        return _Receipt(key=key, time_key=time_key, token=answered.question.token, at_s=answered.at_s)
    return None


def _is_receipt_due(pod: Pod, receipt: _Receipt, age_s: float) -> bool:
    stands = pod.annotations.get(receipt.key) == receipt.token and receipt.time_key in pod.annotations
    return not stands or age_s >= RENEW_RECEIPT_S


def _patch(pod: Pod, annotations: dict[str, str | None], conditions: tuple[Condition, ...]) -> PatchPod | None:
    new_annotations = report.changed(pod, annotations)
    new_conditions = report.differing(pod, conditions)
    if not new_annotations and not new_conditions:
        return None
    return PatchPod(pod=pod, annotations=new_annotations, conditions=new_conditions)

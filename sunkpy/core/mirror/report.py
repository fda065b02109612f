"""What a slurmd pod shows of its Slurm node: annotations and conditions."""

from __future__ import annotations

from datetime import UTC, datetime

from sunkpy.core import names
from sunkpy.core.mirror.actions import PatchPod
from sunkpy.core.model.conditions import says_the_same
from sunkpy.core.model.objects import Condition, Pod
from sunkpy.core.model.slurmd import is_emptied
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.model.times import is_of_start, parse_rfc3339, rfc3339

RECEIPTS = (names.ANNOTATION_DRAINED, names.ANNOTATION_REPLACEABLE)
"""The answers to the token of a removal: nothing runs there; what runs there outlives its slurmd."""

_NOISE = frozenset({"DYNAMIC_NORM", "PLANNED"})  # true of every node of ours, or changing with each scheduling cycle
_CLOSING = (names.ANNOTATION_PENDING_DELETION, names.ANNOTATION_CORDON, names.ANNOTATION_HEALTH_DRAIN)
"""Marks on a pod by which somebody waits until its jobs end."""
_NO_NODE = "Slurm has no node of this name; if that lasts, delete this pod: slurmd registers when it starts"


def known_conditions(node: SlurmNode | None, *, is_silent: bool) -> tuple[Condition, ...]:
    """Conditions for a node as Slurm sees it; None when Slurm has no such node.

    A Slurm node that does not exist says nothing about its machine: whether it is drained is then not known.
    """
    if node is None:
        return (
            _condition(names.CONDITION_DRAIN, False, "NoSlurmNode"),
            Condition(type=names.CONDITION_CORDON, status="Unknown", reason="NoSlurmNode"),
            _condition(names.CONDITION_RUNNING, False, "NoSlurmNode"),
            _condition(names.CONDITION_NOT_RESPONDING, False, "NoSlurmNode"),
        )
    return (
        _condition(names.CONDITION_DRAIN, node.is_closed, _drain_word(node), node.reason if node.is_closed else ""),
        _condition(
            names.CONDITION_CORDON,
            node.is_held_by_others,
            _cordon_word(node),
            node.reason if node.is_held_by_others else "",
        ),
        _condition(names.CONDITION_RUNNING, node.is_busy, "JobsOnNode" if node.is_busy else "NoJobs"),
        _condition(names.CONDITION_NOT_RESPONDING, is_silent, "NotResponding" if is_silent else "Responding"),
    )


def withdrawn_conditions(pod: Pod) -> tuple[Condition, ...]:
    """Conditions to withdraw while Slurm cannot be read: that no job runs on a closed node.

    `kubectl drain` may evict such a pod. All others stay: they remove no pod and end no cordon.
    """
    if not is_emptied(pod):
        return ()
    why = "Slurm cannot be read, or its answer is implausible: see the Events of the NodeSet"
    return (Condition(type=names.CONDITION_RUNNING, status="Unknown", reason="SlurmUnreadable", message=why),)


def promises(pod: Pod) -> bool:
    """The pod shows something that must go while Slurm cannot be read: a receipt, or that it may be evicted."""
    return any(receipt in pod.annotations for receipt in RECEIPTS) or bool(withdrawn_conditions(pod))


def can_wait(pod: Pod, patch: PatchPod) -> bool:
    """True if the patch can wait, because only jobs came or went on a node that is open and stays so. At most the order
    of removals depends on it.
    """
    is_of_jobs = (
        all(condition.type == names.CONDITION_RUNNING for condition in patch.conditions)
        and patch.annotations.keys() <= {names.ANNOTATION_SLURM_STATE}
        and not patch.renews_receipt
    )
    running = pod.condition(names.CONDITION_RUNNING)
    is_told = running is not None and running.status != "Unknown"
    is_to_close = any(key in pod.annotations for key in _CLOSING) or pod.is_deleting
    return is_of_jobs and is_told and not is_to_close and not pod.is_condition_true(names.CONDITION_DRAIN)


def registered_condition(pod: Pod, node: SlurmNode | None, today: datetime) -> Condition:
    """The readiness gate: True while Slurm knows this pod's node and can use it, or only drains it."""
    if node is None:
        return _condition(names.READINESS_GATE, False, "NotRegistered", _NO_NODE)
    if not node.is_registered:
        return _condition(names.READINESS_GATE, False, "NotRegistered", f"Slurm says {shown_state(node)}")
    if not is_of_pod(node, pod, today):
        return _condition(names.READINESS_GATE, False, "NotRegistered", "Slurm still has the slurmd of an earlier pod")
    return _condition(names.READINESS_GATE, True, "Registered")


def is_of_pod(node: SlurmNode, pod: Pod, today: datetime) -> bool:
    """The slurmd that registered last is this pod's, not that of an earlier pod, as far as Slurm shows.

    The record of a node with jobs stays when its pod goes, for minutes without any sign of that. Both times are from
    the clock of the machine. If that was set back in between, or was ahead then, the address decides. `today`: the
    time of day.
    """
    if not node.slurmd_since_s:
        return True
    started, ip = pod.status.start_time, pod.status.pod_ip
    if started is None:
        return False
    since = datetime.fromtimestamp(node.slurmd_since_s, UTC)
    return is_of_start(since, parse_rfc3339(started), today) or (bool(ip) and node.address == ip)


def shown_state(node: SlurmNode) -> str:
    """The state as scontrol prints it, without flags that mean nothing here."""
    return SlurmNode(name=node.name, state=node.state - _NOISE).state_text


def slurm_annotations(node: SlurmNode | None) -> dict[str, str | None]:
    """State and drain reason, for people: no decision reads them. For a closed node also the start of the slurmd that
    Slurm knows; a slurmctld that has just started does not say it. None removes an annotation.
    """
    closed = node if node is not None and node.is_closed else None
    annotations = {
        names.ANNOTATION_SLURM_STATE: shown_state(node) if node else None,
        names.ANNOTATION_DRAIN: (closed.reason or "no reason given") if closed else None,
    }
    if closed is None:
        return {**annotations, names.ANNOTATION_SLURMD_SINCE: None}
    if not closed.slurmd_since_s:
        return annotations
    return {**annotations, names.ANNOTATION_SLURMD_SINCE: rfc3339(datetime.fromtimestamp(closed.slurmd_since_s, UTC))}


def differing(pod: Pod, conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """The conditions that differ from those on the pod."""
    return tuple(condition for condition in conditions if not says_the_same(pod.condition(condition.type), condition))


def changed(pod: Pod, annotations: dict[str, str | None]) -> dict[str, str | None]:
    """The annotations that differ from those on the pod."""
    return {key: value for key, value in annotations.items() if pod.annotations.get(key) != value}


def _cordon_word(node: SlurmNode) -> str:
    if not node.is_held_by_others:
        return "NotDrainedInSlurm"
    return names.REASON_INVALID if node.is_invalid else "DrainedInSlurm"


def _drain_word(node: SlurmNode) -> str:
    if not node.is_closed:
        return "NotDrained"
    return "Draining" if node.is_busy else "Drained"


def _condition(type_: str, is_true: bool, reason: str, message: str = "") -> Condition:
    return Condition(type=type_, status="True" if is_true else "False", reason=reason, message=message)

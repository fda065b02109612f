"""Computes the annotations and conditions by which a slurmd pod shows the state of its Slurm node."""

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
"""The annotations by which the syncer answers a removal token: no job is on the node, or only services are."""

_NOISE = frozenset({"DYNAMIC_NORM", "PLANNED"})  # true of every node of ours, or changing with each scheduling cycle
_CLOSING = (names.ANNOTATION_PENDING_DELETION, names.ANNOTATION_CORDON, names.ANNOTATION_HEALTH_DRAIN)
"""The annotations of a slurmd pod that close its node, so that somebody waits until the jobs there end."""
_NO_NODE = "Slurm has no node of this name; if that lasts, delete this pod: slurmd registers when it starts"


def known_conditions(node: SlurmNode | None, *, is_silent: bool) -> tuple[Condition, ...]:
    """Return the conditions that the slurmd pod of this Slurm node gets, except the readiness gate
    (`registered_condition`). `node`: None if Slurm has no such node. `is_silent`: the node's slurmd has not answered
    slurmctld for a while.

    Without a Slurm node, the condition SlurmCordon is Unknown: nothing says whether somebody drained the machine.
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
    """Return the condition SlurmRunning as Unknown, for use while Slurm cannot be read; empty unless the pod says that
    its node is drained and runs no job.

    `kubectl drain` may evict a pod that says this. Other conditions stay as they are, because they remove no pod and
    end no cordon.
    """
    if not is_emptied(pod):
        return ()
    why = "Slurm cannot be read, or its answer is implausible: see the Events of the NodeSet"
    return (Condition(type=names.CONDITION_RUNNING, status="Unknown", reason="SlurmUnreadable", message=why),)


def promises(pod: Pod) -> bool:
    """True if the pod shows something that must be withdrawn while Slurm cannot be read: a receipt (one of `RECEIPTS`),
    or the condition by which `kubectl drain` may evict the pod.
    """
    return any(receipt in pod.annotations for receipt in RECEIPTS) or bool(withdrawn_conditions(pod))


def can_wait(pod: Pod, patch: PatchPod) -> bool:
    """True if this patch of the pod may be written later: it only shows that jobs came or went, on a node that is open
    and stays open.

    Only the order in which pods are removed depends on what such a patch shows.
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
    """Return the condition for the pod's readiness gate: True while the slurmd of this pod is registered with Slurm,
    and False with the reason otherwise.
    """
    if node is None:
        return _condition(names.READINESS_GATE, False, "NotRegistered", _NO_NODE)
    if not node.is_registered:
        return _condition(names.READINESS_GATE, False, "NotRegistered", f"Slurm says {shown_state(node)}")
    if not is_of_pod(node, pod, today):
        return _condition(names.READINESS_GATE, False, "NotRegistered", "Slurm still has the slurmd of an earlier pod")
    return _condition(names.READINESS_GATE, True, "Registered")


def is_of_pod(node: SlurmNode, pod: Pod, today: datetime) -> bool:
    """True if the slurmd that registered last with Slurm is in this pod, not in an earlier pod of the same node.

    When a pod goes while jobs are on its node, Slurm keeps its record of the node, and for minutes does not show that
    slurmd is gone. So the start of the registered slurmd is compared with the start of the pod; both are by the clock
    of the machine. If the times do not fit because that clock was wrong, the pod's slurmd is recognised by its address.
    True also if Slurm does not say when the slurmd started. `today`: the present time.
    """
    if not node.slurmd_since_s:
        return True
    started, ip = pod.status.start_time, pod.status.pod_ip
    if started is None:
        return False
    since = datetime.fromtimestamp(node.slurmd_since_s, UTC)
    return is_of_start(since, parse_rfc3339(started), today) or (bool(ip) and node.address == ip)


def shown_state(node: SlurmNode) -> str:
    """Return the node's state as scontrol prints it, without the flags DYNAMIC_NORM and PLANNED."""
    return SlurmNode(name=node.name, state=node.state - _NOISE).state_text


def slurm_annotations(node: SlurmNode | None) -> dict[str, str | None]:
    """Return the annotations that the slurmd pod of this Slurm node gets; None removes an annotation.

    They hold the node's state, the drain's reason and, for a closed node, when the registered slurmd started. A
    slurmctld that has just started does not know this time; then its annotation stays as it is.
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
    """Return those of the conditions whose status, reason or message differ from those on the pod."""
    return tuple(condition for condition in conditions if not says_the_same(pod.condition(condition.type), condition))


def changed(pod: Pod, annotations: dict[str, str | None]) -> dict[str, str | None]:
    """Return those of the annotations whose values differ from those on the pod."""
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

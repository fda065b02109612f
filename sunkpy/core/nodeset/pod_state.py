"""The states of one slurmd pod, and the order in which several are removed."""

from __future__ import annotations

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.removal_token import token_of
from sunkpy.core.model.times import parse_rfc3339

_IDLE = 1
_LAST_LINES = 3

RemovalOrder = tuple[bool, int, float, str]


def is_available(pod: Pod) -> bool:
    """True if the slurmd pod is Ready (which includes that its node is registered in Slurm), is not being deleted, and
    is not marked for removal.
    """
    return pod.is_condition_true("Ready") and not pod.is_deleting and token_of(pod) is None


def is_open_and_idle(pod: Pod) -> bool:
    """True if the slurmd pod is available, its Slurm node is not drained, and no job runs there. An unknown state gives
    False.
    """
    is_told = all(
        (told := pod.condition(type_)) is not None and told.status == "False"
        for type_ in (names.CONDITION_RUNNING, names.CONDITION_DRAIN)
    )
    return is_told and is_available(pod)


def is_answered(pod: Pod) -> bool:
    """True if the syncer has answered the pod's removal token by copying it to `sunkpy.dev/drained`: Slurm said that
    nothing ran on the node. The time of the answer is not checked here.
    """
    token = pod.annotations.get(names.ANNOTATION_PENDING_DELETION)
    return token is not None and pod.annotations.get(names.ANNOTATION_DRAINED) == token


def is_marked_by_roll(pod: Pod) -> bool:
    """True if a rolling update has marked the pod for removal: a new pod on the same Node will replace it."""
    token = token_of(pod)
    return token is not None and token.is_rollout


def last_words(pod: Pod) -> str:
    """Return the last three lines of the termination message of a container of the slurmd pod; empty if no container
    has ended or left a message.
    """
    states = (state for each in pod.status.container_statuses for state in (each.state, each.last_state))
    ends = (state.terminated.message.strip() for state in states if state.terminated is not None)
    return "; ".join(next(filter(None, ends), "").splitlines()[-_LAST_LINES:])


def is_replaceable(pod: Pod) -> bool:
    """True if a rolling update has marked the pod for removal, and the syncer has answered by copying the token to
    `sunkpy.dev/replaceable`: what runs on the node survives a change of slurmd.
    """
    token = pod.annotations.get(names.ANNOTATION_PENDING_DELETION)
    return is_marked_by_roll(pod) and pod.annotations.get(names.ANNOTATION_REPLACEABLE) == token


def is_updated(pod: Pod, wanted_hash: str) -> bool:
    """True if the pod was made from the current template, even if its node offers something else to Slurm now."""
    return pod.labels.get(names.LABEL_TEMPLATE_HASH) == wanted_hash


def is_on_the_way(pod: Pod, *, is_current: bool) -> bool:
    """True if a rolling update is at work on the pod: an old pod (not `is_current`) that is being deleted, or a new pod
    that is not available yet.
    """
    return not is_available(pod) if is_current else pod.is_deleting


def is_stranded(pod: Pod, node: Node | None) -> bool:
    """True if the slurmd pod is not available and no rolling update can change that: its Node is gone or not Ready, or
    somebody has drained the Slurm node or set it down.

    A node that Slurm rejects as invalid does not count: that may be the fault of the template.
    """
    if is_available(pod):
        return False
    held = pod.condition(names.CONDITION_CORDON)
    is_held = held is not None and held.status == "True" and held.reason != names.REASON_INVALID
    return node is None or not node.is_ready or is_held


def is_free(order: RemovalOrder) -> bool:
    """True if the pod with this order (from `removal_order`) is not marked for removal, and is idle or not Ready, so
    that no job has to end before it goes.
    """
    return order[0] and order[1] <= _IDLE


def removal_order(pod: Pod) -> RemovalOrder:
    """Return the sort key by which pods are removed: first pods that are marked for removal or being deleted, then by
    what runs on them (`_rank`), then the newest.
    """
    created = pod.metadata.creation_timestamp
    age = parse_rfc3339(created).timestamp() if created else float("inf")
    return (not pod.is_deleting and token_of(pod) is None, _rank(pod), -age, pod.name)


def _rank(pod: Pod) -> int:
    """Return the rank of the pod among those to remove: not-ready < idle < draining < running.

    A pod on whose node a job runs ranks as draining or running even if it is not Ready. A Ready pod whose jobs are
    unknown ranks as running.
    """
    running = pod.condition(names.CONDITION_RUNNING)
    is_ready = pod.is_condition_true("Ready")
    if running is not None and running.status == "True":
        return 2 if pod.is_condition_true(names.CONDITION_DRAIN) else 3
    if not is_ready:
        return 0
    return _IDLE if running is not None and running.status == "False" else 3

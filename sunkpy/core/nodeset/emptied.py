"""Whether anything still runs on a node that was drained because of its health, by an answer of the syncer that is
seconds old.

What a slurmd pod shows of its Slurm node may be hours old, because a syncer that is down withdraws nothing. So the
operator asks the syncer before it calls the node drained, and before it does something that a job would not survive, or
tells somebody else to do it. The question is a token on the pod (`sunkpy.dev/drain-asked`). The answer is a fresh copy
of that token in `sunkpy.dev/drained`: Slurm has said twice that the node is drained and that no job is on it.

Slurm gives up the jobs of a node that does not answer, while their pods may still run there for minutes. So the pods of
jobs count, too, as long as they have time to end and a kubelet is there to end them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from sunkpy.core import names
from sunkpy.core.health import State, read_record
from sunkpy.core.model import slurmd
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.times import parse_rfc3339
from sunkpy.core.nodeset.removal import has_fresh_receipt
from sunkpy.core.nodeset.services import jobs_of_pods

_DEAD_AFTER_S: Final = 300
"""After so many seconds Kubernetes itself deletes most pods of a Node that is not Ready."""
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_DRAINED: Final = frozenset({State.DRAINING, State.DRAINED, State.REMEDY, State.VERIFY, State.PERSON})
"""States of a Node whose Slurm node has been drained. Only then is the syncer asked, because its answer is written
again every ten seconds.
"""


def token_of_question(node: Node) -> str | None:
    """Return the token by which the operator asks the syncer whether anything still runs on a Node that was drained for
    its health. None if the Node's health record says that it was not.
    """
    record = read_record(node)
    if record is None or record.state not in _DRAINED:
        return None
    return f"{record.since or record.at}/health"


def is_empty(node: Node, pod: Pod | None, occupants: Iterable[Pod], now: datetime) -> bool:
    """True if no pod of a job is left on the node, and the syncer has answered in the last 30 s that no job is there
    (`is_answered`) or there is no slurmd pod.

    A pod that is deleted counts until its time to end is over. On a Node that was not Ready for five minutes no pod
    counts, because nobody would report its end. Pods of Kubernetes' own scheduler do not count, because their authors
    may give them any annotation.

    Args:
        node: the Node, drained for its health.
        pod: its slurmd pod.
        occupants: all pods on the Node.
        now: the time of the decision.
    """
    if pod is not None and not is_answered(node, pod, now):
        return False
    return _is_dead(node, now) or not jobs_of_pods(each for each in occupants if _may_still_run(each, now))


def _is_dead(node: Node, now: datetime) -> bool:
    ready = node.condition("Ready")
    if ready is None or ready.status == "True" or ready.last_transition_time is None:
        return False
    return (now - parse_rfc3339(ready.last_transition_time)).total_seconds() >= _DEAD_AFTER_S


def _may_still_run(pod: Pod, now: datetime) -> bool:
    until = pod.metadata.deletion_timestamp
    is_ours = pod.spec.scheduler_name != _DEFAULT_SCHEDULER
    return is_ours and (until is None or parse_rfc3339(until) > now)


def is_answered(node: Node, pod: Pod, now: datetime) -> bool:
    """True if the Node was drained for its health, and the syncer has answered in the last 30 s that nothing runs
    there. If the pod is to be removed, the syncer answers the removal's token instead of the question, and that counts.
    """
    question = token_of_question(node)
    if question is None:
        return False
    asked = pod.annotations.get(names.ANNOTATION_PENDING_DELETION, question)
    if pod.annotations.get(names.ANNOTATION_DRAINED) != asked:
        return False
    return slurmd.is_emptied(pod) and has_fresh_receipt(pod, now)

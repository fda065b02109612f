"""Whether anything still runs on a node that was drained because of its health, by an answer of the syncer that is
seconds old.

What a slurmd pod shows of its Slurm node may be hours old, because a syncer that is down withdraws nothing. So the
operator asks the syncer before it calls the node drained, and before it does something that a job would not survive, or
tells somebody else to do it. The question is a token on the pod (`sunkpy.dev/drain-asked`). The answer is a fresh copy
of that token in `sunkpy.dev/drained`: Slurm has said twice that the node is drained and that no job is on it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from sunkpy.core import names
from sunkpy.core.health import State, read_record
from sunkpy.core.model import slurmd
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.nodeset.removal import has_fresh_receipt

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

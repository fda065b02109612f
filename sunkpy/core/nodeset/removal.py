"""How a slurmd pod goes: the hand-shake with the syncer, and in which order pods are taken.

The operator writes a token on the pod (`sunkpy.dev/pending-deletion: <time>/<cause>`). The syncer drains the Slurm
node and, when Slurm has said "drained and idle" twice, copies the token verbatim to `sunkpy.dev/drained`. Only a pod
whose two annotations are equal may be deleted; taking the token away calls the removal off, and a later token is a
different one, so an old answer never counts for a new question.
"""

from __future__ import annotations

import enum

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.removal_token import token_of
from sunkpy.core.model.times import parse_rfc3339


class RemovalCause(enum.StrEnum):
    """Why a pod has to go."""

    SCALE_DOWN = "scale-down"
    ROLLOUT = "rollout"
    NODESET_DELETED = "nodeset-deleted"
    NODE_LEFT = "node-left"


def is_cleared(pod: Pod) -> bool:
    """The syncer has answered exactly the token that is on the pod: nothing runs there any more."""
    token = pod.annotations.get(names.ANNOTATION_PENDING_DELETION)
    return token is not None and pod.annotations.get(names.ANNOTATION_DRAINED) == token


def removal_order(pod: Pod) -> tuple[bool, int, float, str]:
    """Sort key, first to go first: marked before unmarked, then by `_rank`, then newest first."""
    created = pod.metadata.creation_timestamp
    age = parse_rfc3339(created).timestamp() if created else float("inf")
    return (not pod.is_deleting and token_of(pod) is None, _rank(pod), -age, pod.name)


def _rank(pod: Pod) -> int:
    """not-ready < idle < draining < running.

    A pod that is not Ready but still runs a job ranks as running, and a Ready pod whose jobs nobody knows of too.
    """
    running = pod.condition(names.CONDITION_RUNNING)
    is_ready = pod.is_condition_true("Ready")
    if running is not None and running.status == "True":
        return 2 if pod.is_condition_true(names.CONDITION_DRAIN) else 3
    if not is_ready:
        return 0
    return 1 if running is not None and running.status == "False" else 3

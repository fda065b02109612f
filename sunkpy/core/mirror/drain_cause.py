"""Decides from the slurmd pod whether its Slurm node should be drained, and why.

The operator copies a cordon of the Kubernetes Node to the slurmd pod. The syncer then drains the Slurm node, and lifts
its drain when the cordon has ended.
"""

from __future__ import annotations

import enum

import msgspec

from sunkpy.core import names
from sunkpy.core.model.drain_reason import cordon_reason, health_reason, our_reason
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.removal_token import token_of

UNREADY_GRACE_S = 10.0
"""How long the containers of a slurmd pod may be unready before its Slurm node is drained: longer than slurmd needs to
restart.
"""


class Want(enum.Enum):
    """What to do with sunkpy's drain of a Slurm node: set it, leave it as it is, or lift it."""

    DRAIN = "drain"
    HOLD = "hold"  # neither set nor lift it
    LIFT = "lift"


class DrainCause(msgspec.Struct, frozen=True):
    """What to do with sunkpy's drain of a Slurm node, and why.

    `reason`: the reason that the drain gets in Slurm. `is_announced`: a person or the operator asked for the drain.
    """

    want: Want
    reason: str = ""
    is_announced: bool = True


def drain_cause(pod: Pod | None, *, unready_for_s: float) -> DrainCause:
    """Return what to do with sunkpy's drain of the Slurm node. The node is drained for the first of these causes that
    applies:

    1. the slurmd pod is gone, or is to be deleted: no new job may start on its node;
    2. its Node is cordoned;
    3. its Node is sick by a health rule;
    4. the pod has finished, or its containers have been unready for `UNREADY_GRACE_S` (ContainersReady decides: Ready
       depends on our own readiness gate, which would make a loop).

    If none applies, the drain is lifted once the pod's containers are ready; until then it is neither set nor lifted.
    """
    if pod is None:
        return _drain("pod gone", is_announced=False)
    token = token_of(pod)
    if token is not None:
        return _drain(f"pod pending deletion: {token.cause}")
    if pod.is_deleting:
        return _drain("pod pending deletion: deleted")
    cordon = pod.annotations.get(names.ANNOTATION_CORDON)
    if cordon is not None:
        return DrainCause(Want.DRAIN, cordon_reason(cordon))
    sick = pod.annotations.get(names.ANNOTATION_HEALTH_DRAIN)
    if sick is not None:
        return DrainCause(Want.DRAIN, health_reason(sick))
    if pod.is_condition_true("ContainersReady"):
        return DrainCause(Want.LIFT)
    if unready_for_s >= UNREADY_GRACE_S or pod.is_finished:
        return _drain("pod not ready", is_announced=False)
    return DrainCause(Want.HOLD)


def _drain(text: str, *, is_announced: bool = True) -> DrainCause:
    return DrainCause(Want.DRAIN, our_reason(text), is_announced)

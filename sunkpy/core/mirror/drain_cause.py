"""Why a Slurm node should be drained, as Kubernetes sees it.

The operator copies a cordon of the Node to its slurmd pod; the syncer drains the Slurm node and lifts that again.
"""

from __future__ import annotations

import enum

import msgspec

from sunkpy.core import names
from sunkpy.core.model.drain_reason import cordon_reason, health_reason, our_reason
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.removal_token import token_of

UNREADY_GRACE_S = 10.0
"""The containers of a pod may be unready for so many seconds before their node is drained: a restart of slurmd is not
an outage.
"""


class Want(enum.Enum):
    """What Kubernetes wants of a drain with our reason: set it, leave it as it is, or lift it."""

    DRAIN = "drain"
    HOLD = "hold"  # neither set nor lift it
    LIFT = "lift"


class DrainCause(msgspec.Struct, frozen=True):
    """`reason` is the text for Slurm; `is_announced` when a person or the operator asked for the drain."""

    want: Want
    reason: str = ""
    is_announced: bool = True


def drain_cause(pod: Pod | None, *, unready_for_s: float) -> DrainCause:
    """The strongest cause, first match:

    1. the pod is gone, or is to be deleted: no new job may start there;
    2. its Node is cordoned;
    3. its Node is sick, by a signal that counts;
    4. its containers are not ready, for longer than the grace. ContainersReady decides: Ready depends on our own
       readiness gate, which would make a loop.

    A pod that is not ready yet never has a drain lifted, so a node comes back only when its slurmd does.
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

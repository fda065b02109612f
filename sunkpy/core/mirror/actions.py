"""The writes that the mirror decides on, to a Slurm node or a slurmd pod; `sunkpy.syncer.execute` carries them out."""

from __future__ import annotations

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import Condition, Pod


class DrainNode(msgspec.Struct, frozen=True, kw_only=True):
    """Drain a Slurm node with a reason that starts with `k8s: `.

    `is_announced`: a person or the operator asked for it, or the node is drained already and gets another reason. Other
    drains count towards a cap (`ActionBudget`).
    """

    name: str
    reason: str
    is_announced: bool


class UndrainNode(msgspec.Struct, frozen=True, kw_only=True):
    """Lift sunkpy's own drain of a node, if the apiserver still has this slurmd pod (by uid) and the pod asks for no
    drain.
    """

    name: str
    pod: Pod


class LiftDrain(msgspec.Struct, frozen=True, kw_only=True):
    """Lift a drain with exactly this reason that somebody else set, if the apiserver still has this pod with the
    permission, and the pod asks for no drain.

    The permission is the pod's annotation `sunkpy.dev/health-lift` with this reason. The operator writes it if a health
    rule names the reason and the node is cured.
    """

    name: str
    reason: str
    pod: Pod


class ResumeNode(msgspec.Struct, frozen=True, kw_only=True):
    """Resume a node that slurmctld set DOWN by itself (`given_up`), if the apiserver still has this slurmd pod (by uid)
    and the pod asks for no drain.

    `reason`: the reason that the node has in Slurm.
    """

    name: str
    pod: Pod
    reason: str


class ClearReason(msgspec.Struct, frozen=True, kw_only=True):
    """Remove the reason that a lifted drain of sunkpy left on the node (`SlurmNode.has_reason_left`). If slurmctld
    drained the node by itself, the node would keep this reason, and the drain would look like one by sunkpy.
    """

    name: str


class RestoreDrain(msgspec.Struct, frozen=True, kw_only=True):
    """Set somebody else's drain again, with the same reason, after Slurm lost it (`lost_drain`)."""

    name: str
    reason: str


class SetComment(msgspec.Struct, frozen=True, kw_only=True):
    """Write the identity of the node's slurmd pod into the Slurm node's `Comment`: `core.model.states.NodeComment` as
    JSON.
    """

    name: str
    comment: str


class SetAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Write the slurmd pod's address to slurmctld, which still has the address of an earlier pod."""

    name: str
    address: str


class SetTopology(msgspec.Struct, frozen=True, kw_only=True):
    """Write the node's place in Slurm's topology; an empty `topology` removes the place from Slurm's record."""

    name: str
    topology: str


class DeleteSlurmNode(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a Slurm node that sunkpy made and that is drained for `reason`, if the apiserver has no pod of that name.

    `is_announced`: a person or the operator asked to remove the node's pod. Other deletions count towards a cap
    (`ActionBudget`).
    """

    name: str
    reason: str
    is_announced: bool


class PatchPod(msgspec.Struct, frozen=True, kw_only=True):
    """Write annotations (None removes one) and conditions to a slurmd pod.

    A receipt is the annotation that says that no job is on the node, or only services (jobs of pods without processes).
    `receipt_age_s`: how many seconds ago Slurm was asked for the answer that the receipt rests on; None if the patch
    does not write that time. `receipt_time`: the annotation that gets that time.
    """

    pod: Pod
    annotations: dict[str, str | None]
    conditions: tuple[Condition, ...]
    receipt_age_s: float | None = None
    receipt_time: str = names.ANNOTATION_DRAINED_AT

    @property
    def renews_receipt(self) -> bool:
        """True if the patch writes when Slurm last confirmed that no job, or only services, are on the pod's node."""
        return self.receipt_age_s is not None


SlurmAction = (
    DrainNode
    | UndrainNode
    | LiftDrain
    | ResumeNode
    | ClearReason
    | RestoreDrain
    | SetComment
    | SetAddress
    | SetTopology
    | DeleteSlurmNode
)
"""All actions that write to Slurm."""

MirrorAction = SlurmAction | PatchPod

SlurmWrite = DrainNode | RestoreDrain | SetComment | SetAddress | SetTopology | str
"""A write to Slurm as the mirror remembers it: the action itself, or its class name if it writes no value."""


def as_write(action: MirrorAction) -> SlurmWrite | None:
    """Return what the mirror remembers of a write to Slurm: the action itself, or only its class name if it writes no
    value. None for an action on a pod.
    """
    match action:
        case PatchPod():
            return None
        case DrainNode() | RestoreDrain() | SetComment() | SetAddress() | SetTopology():
            return action
        case UndrainNode() | LiftDrain() | ResumeNode() | ClearReason() | DeleteSlurmNode():
            return type(action).__name__

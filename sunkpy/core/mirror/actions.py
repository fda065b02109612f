"""What the mirror may decide to do. Each action names all it needs; `sunkpy.syncer.execute` carries it out."""

from __future__ import annotations

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import Condition, Pod


class DrainNode(msgspec.Struct, frozen=True, kw_only=True):
    """Set DRAIN with a reason of ours. `is_announced`: a person or the operator asked for it; else it is capped."""

    name: str
    reason: str
    is_announced: bool


class UndrainNode(msgspec.Struct, frozen=True, kw_only=True):
    """Lift a drain of ours, if the apiserver still has this pod (by uid) and nothing on it asks for a drain."""

    name: str
    pod: Pod


class LiftDrain(msgspec.Struct, frozen=True, kw_only=True):
    """Lift somebody else's drain with exactly this reason, if the apiserver still has this pod and its leave to do so.

    The leave is the annotation `sunkpy.dev/health-lift`, which the operator writes where a rule names the reason.
    """

    name: str
    reason: str
    pod: Pod


class ResumeNode(msgspec.Struct, frozen=True, kw_only=True):
    """Return a node that slurmctld gave up by itself, under the same conditions. `reason` is what slurmctld says."""

    name: str
    pod: Pod
    reason: str


class RestoreDrain(msgspec.Struct, frozen=True, kw_only=True):
    """Set again a drain of somebody else that Slurm has lost, with the same reason."""

    name: str
    reason: str


class SetComment(msgspec.Struct, frozen=True, kw_only=True):
    """Write whose node this is into Slurm's `Comment`: `core.model.states.NodeComment` as JSON."""

    name: str
    comment: str


class SetAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Tell slurmctld the address of the slurmd: it still has the address of an earlier pod."""

    name: str
    address: str


class SetTopology(msgspec.Struct, frozen=True, kw_only=True):
    """Tell Slurm where the node stands; an empty `topology` takes out what its record says of it."""

    name: str
    topology: str


class DeleteSlurmNode(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a Slurm node of ours, drained for `reason`, if the apiserver has no pod of that name either.

    `is_announced`: see DrainNode.
    """

    name: str
    reason: str
    is_announced: bool


class PatchPod(msgspec.Struct, frozen=True, kw_only=True):
    """Annotations to set (None removes) and conditions that differ.

    `receipt_age_s`: the annotations hold a receipt, which gets a new time: how many seconds ago Slurm was asked.
    `receipt_time` is the annotation of its time.
    """

    pod: Pod
    annotations: dict[str, str | None]
    conditions: tuple[Condition, ...]
    receipt_age_s: float | None = None
    receipt_time: str = names.ANNOTATION_DRAINED_AT

    @property
    def renews_receipt(self) -> bool:
        """The receipt gets a new time."""
        return self.receipt_age_s is not None


SlurmAction = (
    DrainNode
    | UndrainNode
    | LiftDrain
    | ResumeNode
    | RestoreDrain
    | SetComment
    | SetAddress
    | SetTopology
    | DeleteSlurmNode
)
"""All actions that write to Slurm."""

MirrorAction = SlurmAction | PatchPod

SlurmWrite = DrainNode | RestoreDrain | SetComment | SetAddress | SetTopology | str
"""A write to Slurm as it is remembered; those without content are remembered by name."""


def as_write(action: MirrorAction) -> SlurmWrite | None:
    """What is remembered of an action that writes to Slurm; None for other actions."""
    match action:
        case PatchPod():
            return None
        case DrainNode() | RestoreDrain() | SetComment() | SetAddress() | SetTopology():
            return action
        case UndrainNode() | LiftDrain() | ResumeNode() | DeleteSlurmNode():
            return type(action).__name__

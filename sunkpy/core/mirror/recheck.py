"""Checks whether a planned write is still right for the Slurm node as Slurm shows it now.

Up to a second passes between the read of all nodes and the write, and admins, health checks and Epilogs write too. So
the syncer reads the node again right before each write. If the write is no longer right, it is not done, and the mirror
decides again on Slurm's next answer.

Slurm has no command that lifts a drain only if its reason is still the same. So a drain that somebody else sets between
that read and the lift is lifted, too. A DOWN stands, with its reason, except if the node is resumed. With accounting,
and in Slurm 26.05, slurmctld removes the reason of a node that it opens, so there a drain that was lifted too is lost.
Slurm 24.11 without accounting leaves the reason, so the syncer reads the node after the lift. Another reason than
before is that of somebody else's drain, which is set again (`lifted_too`). Else the reason is removed, in a second
write (`leaves_reason`). A drain that somebody sets before this one stands, without its reason. Of a DOWN without its
reason nobody could tell that a person set it, so the node is read a last time, and drained if it is down by now
(`is_lost_down`).
"""

from __future__ import annotations

from typing import Final

from sunkpy.core.mirror.actions import (
    ClearReason,
    DeleteSlurmNode,
    DrainNode,
    LiftDrain,
    RestoreDrain,
    ResumeNode,
    SetAddress,
    SetComment,
    SetTopology,
    SlurmAction,
    UndrainNode,
)
from sunkpy.core.mirror.given_up import is_given_up
from sunkpy.core.model.states import SlurmNode

LOST_DOWN: Final = "set DOWN while sunkpy removed the reason of its own drain: see who did so, and why"
"""The reason of the drain of a node that is down for a reason that is lost."""


def still_holds(action: SlurmAction, node: SlurmNode) -> bool:
    """True if this write would still change the Slurm node, and would not overwrite what others set meanwhile."""
    match action:
        case DrainNode(reason=reason):
            return not node.is_held_by_others and not (node.is_drain and node.reason == reason)
        case UndrainNode():
            return node.is_drained_by_us
        case LiftDrain(reason=reason):
            return node.is_drained_by_others_for(reason)
        case ResumeNode():
            return is_given_up(node)
        case ClearReason():
            return node.has_reason_left
        case RestoreDrain():
            return not node.is_closed
        case SetComment():
            return not node.comment or node.owner is not None
        case SetAddress(address=address):
            return node.address != address and (node.is_not_responding or node.is_down)
        case SetTopology(topology=topology):
            return node.is_registered and node.topology != topology
        case DeleteSlurmNode(reason=reason):
            return node.is_drained and node.reason == reason and node.owner is not None


def is_in_effect(action: SlurmAction, node: SlurmNode) -> bool:
    """True if the node already shows the effect of a write, although Slurm refused the request. A request may be for
    many nodes, and Slurm may have carried out a part of it. False for writes other than drains, lifted drains and
    resumed nodes.
    """
    match action:
        case DrainNode(reason=reason) | RestoreDrain(reason=reason):
            return node.is_drain and node.reason == reason
        case UndrainNode() | LiftDrain():
            return not node.is_drain
        case ResumeNode():
            return not node.is_down
        case _:
            return False


def lifted_too(node: SlurmNode, agreed: str) -> str:
    """Return the reason of the drain or DOWN of somebody else that a lift has lifted; empty if there was none.
    `node`: the node after the lift. `agreed`: the reason that it had right before.
    """
    return node.reason if node.has_reason_of_others and node.reason != agreed and not node.is_closed else ""


def leaves_reason(node: SlurmNode) -> bool:
    """True if the node, which is as a lift has left it, takes jobs again, but has a reason."""
    return bool(node.reason) and not node.is_closed and not node.is_down


def is_lost_down(node: SlurmNode) -> bool:
    """True if a node that was not down before its reason was removed is down now, without a reason. slurmctld does not
    set a node DOWN by itself so soon after a lift; if it does so before a `ClearReason`, a person must look.
    """
    return node.is_down and not node.is_drain and not node.reason

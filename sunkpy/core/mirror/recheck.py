"""Is a write still right for the node as Slurm shows it now?

Up to a second passes between the poll and the write, and admins, health checks and Epilogs write too. So the executor
reads the node again right before each write. A write that is no longer right is decided again on the next answer.
"""

from __future__ import annotations

from sunkpy.core.mirror.actions import (
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


def still_holds(action: SlurmAction, node: SlurmNode) -> bool:
    """True if the write still has an effect on the Slurm node, and changes nothing that somebody else set."""
    match action:
        case DrainNode(reason=reason):
            return not node.is_held_by_others and not (node.is_drain and node.reason == reason)
        case UndrainNode():
            return node.is_drained_by_us
        case LiftDrain(reason=reason):
            return node.is_drained_by_others_for(reason)
        case ResumeNode():
            return is_given_up(node)
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
    """True if the node shows the effect, though Slurm refused the request: it may have carried out a part of it."""
    match action:
        case DrainNode(reason=reason) | RestoreDrain(reason=reason):
            return node.is_drain and node.reason == reason
        case UndrainNode() | LiftDrain():
            return not node.is_drain
        case ResumeNode():
            return not node.is_down
        case _:
            return False

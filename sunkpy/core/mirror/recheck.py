"""Checks whether a planned write is still right for the Slurm node as Slurm shows it now.

Up to a second passes between the read of all nodes and the write, and admins, health checks and Epilogs write too. So
the syncer reads the node again right before each write. If the write is no longer right, it is not done, and the mirror
decides again on Slurm's next answer.
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

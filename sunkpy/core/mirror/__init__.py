"""Mirror of slurmd pods and Slurm nodes: `decide(View, now) -> Decision`, all values, no I/O."""

from sunkpy.core.mirror.decide import after_writing, decide
from sunkpy.core.mirror.trust import Budget, find_vanished
from sunkpy.core.mirror.world import (
    Action,
    Claim,
    Decision,
    DeleteSlurmNode,
    DrainNode,
    Memory,
    PatchPod,
    SetComment,
    Sight,
    UndrainNode,
    View,
)

__all__ = [
    "Action",
    "Budget",
    "Claim",
    "Decision",
    "DeleteSlurmNode",
    "DrainNode",
    "Memory",
    "PatchPod",
    "SetComment",
    "Sight",
    "UndrainNode",
    "View",
    "after_writing",
    "decide",
    "find_vanished",
]

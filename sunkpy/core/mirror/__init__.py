"""Mirror of slurmd pods and Slurm nodes: `decide_mirror(View, now) -> Decision`, all values, no I/O."""

from sunkpy.core.mirror.decide import after_writing, decide_mirror
from sunkpy.core.mirror.trust import Budget, find_vanished
from sunkpy.core.mirror.world import (
    Claim,
    Decision,
    DeleteSlurmNode,
    DrainNode,
    Memory,
    MirrorAction,
    PatchPod,
    SetComment,
    Sight,
    UndrainNode,
    View,
)

__all__ = [
    "Budget",
    "Claim",
    "Decision",
    "DeleteSlurmNode",
    "DrainNode",
    "Memory",
    "MirrorAction",
    "PatchPod",
    "SetComment",
    "Sight",
    "UndrainNode",
    "View",
    "after_writing",
    "decide_mirror",
    "find_vanished",
]

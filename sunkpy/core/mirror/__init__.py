"""The mirror brings slurmd pods and Slurm nodes in line: `decide_mirror(View, now) -> Decision`, a pure function."""

from sunkpy.core.mirror.actions import (
    ClearReason,
    DeleteSlurmNode,
    DrainNode,
    LiftDrain,
    MirrorAction,
    PatchPod,
    RestoreDrain,
    ResumeNode,
    SetAddress,
    SetComment,
    SetTopology,
    SlurmAction,
    UndrainNode,
)
from sunkpy.core.mirror.decide import Decision, after_asking, after_writing, decide_mirror
from sunkpy.core.mirror.recheck import (
    LOST_DOWN,
    is_in_effect,
    is_lost_down,
    leaves_reason,
    lifted_too,
    still_holds,
)
from sunkpy.core.mirror.report import promises
from sunkpy.core.mirror.services import ServiceQuestion, are_services_alone, is_service
from sunkpy.core.mirror.trust import ActionBudget, find_vanished, is_expected
from sunkpy.core.mirror.view import MirrorMemory, Sighting, SlurmAnswer, View

__all__ = [
    "LOST_DOWN",
    "ActionBudget",
    "ClearReason",
    "Decision",
    "DeleteSlurmNode",
    "DrainNode",
    "LiftDrain",
    "MirrorAction",
    "MirrorMemory",
    "PatchPod",
    "RestoreDrain",
    "ResumeNode",
    "ServiceQuestion",
    "SetAddress",
    "SetComment",
    "SetTopology",
    "Sighting",
    "SlurmAction",
    "SlurmAnswer",
    "UndrainNode",
    "View",
    "after_asking",
    "after_writing",
    "are_services_alone",
    "decide_mirror",
    "find_vanished",
    "is_expected",
    "is_in_effect",
    "is_lost_down",
    "is_service",
    "leaves_reason",
    "lifted_too",
    "promises",
    "still_holds",
]

"""The values that the mirror decides on, and the actions it may decide.

Everything is per Slurm node name, which is also the name of the slurmd pod: `View` is all that is known of one name,
`Memory` what was seen of it before, `Decision` what to do and what to remember. Times are seconds of one monotonic
clock.
"""

from __future__ import annotations

import msgspec

from sunkpy.core.model.objects import Condition, Pod
from sunkpy.core.model.states import SlurmNode


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """What Slurm last said of the name; `node` is None when Slurm has no such node.

    `number` counts Slurm's answers, `at_s` is when that answer was asked for. `is_trusted` is False when the answer as
    a whole cannot be believed (see `sunkpy.core.mirror.trust`).
    """

    node: SlurmNode | None
    number: int
    at_s: float
    is_trusted: bool = True


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Something that held in answer `number`, about `token`; it is proved when a later answer agrees."""

    token: str
    number: int


class DrainNode(msgspec.Struct, frozen=True, kw_only=True):
    """Set DRAIN with a reason of ours. `is_announced`: a person or the operator asked for it; else it is capped."""

    name: str
    reason: str
    is_announced: bool


class UndrainNode(msgspec.Struct, frozen=True, kw_only=True):
    """Lift a drain of ours, if the pod is still the one (uid, resourceVersion) that was decided on."""

    name: str
    pod: Pod


class SetComment(msgspec.Struct, frozen=True, kw_only=True):
    """Write whose node this is."""

    name: str
    comment: str


class DeleteSlurmNode(msgspec.Struct, frozen=True, kw_only=True):
    """Forget a node of ours whose pod is gone; checked once more with the apiserver before it is done."""

    name: str
    is_announced: bool


class PatchPod(msgspec.Struct, frozen=True, kw_only=True):
    """Annotations to set (None removes) and conditions that differ."""

    pod: Pod
    annotations: dict[str, str | None]
    conditions: tuple[Condition, ...]


SlurmWrite = DrainNode | SetComment | str
"""A write to Slurm as it is remembered; those without content are remembered by name."""

MirrorAction = DrainNode | UndrainNode | SetComment | DeleteSlurmNode | PatchPod


def as_write(action: MirrorAction) -> SlurmWrite | None:
    """What is remembered of an action; None for those that do not write to Slurm."""
    match action:
        case PatchPod():
            return None
        case DrainNode() | SetComment():
            return action
        case UndrainNode() | DeleteSlurmNode():
            return type(action).__name__


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier passes saw. An empty one is always safe: it only delays.

    `silent_since_s`: Slurm says NOT_RESPONDING. `unready_since_s`: the pod's containers are not ready although Slurm
    has the node. `podless_since_s`: there is no pod. `drained`, `deletable`: claims that wait for a second answer.
    `wrote_at_s`, `wrote`: when Slurm was last written to, and what; older answers do not show it yet.
    """

    silent_since_s: float | None = None
    unready_since_s: float | None = None
    podless_since_s: float | None = None
    drained: Claim | None = None
    deletable: Claim | None = None
    wrote_at_s: float = float("-inf")
    wrote: tuple[SlurmWrite, ...] = ()


class View(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one name. `sight` is None before Slurm has answered for the first time.

    `are_pods_known`: the pod watch is up, so a pod that is not seen is not there. `namespace` is ours.
    """

    name: str
    namespace: str
    pod: Pod | None
    sight: Sight | None
    are_pods_known: bool = True
    memory: Memory = Memory()


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, what to remember, and when to look again although nothing changes.

    `wants_next_answer`: decide again with Slurm's next answer. `again_s`: decide again after so many seconds.
    """

    actions: tuple[MirrorAction, ...]
    memory: Memory
    wants_next_answer: bool = False
    again_s: float | None = None

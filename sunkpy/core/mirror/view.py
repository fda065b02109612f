"""The value that the mirror decides on.

Everything is per Slurm node name, which is also the name of the slurmd pod: `View` is all that is known of one name,
`MirrorMemory` what was seen of it before. Times are seconds of one monotonic clock, but for `today`.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from sunkpy.core.mirror.actions import SlurmWrite
from sunkpy.core.mirror.services import ServiceAnswer
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.model.times import LATEST


class SlurmAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Slurm's last answer about the name; `node` is None when Slurm has no such node.

    `number` counts Slurm's answers, `at_s` is when this one was asked for. `turn_s`: how old the
    newest answer can be: large clusters take long to answer and are asked less often. `is_trusted` is False when the
    answer as a whole is implausible (see `sunkpy.core.mirror.trust`).
    """

    node: SlurmNode | None
    number: int
    at_s: float
    turn_s: float = 0.0
    is_trusted: bool = True


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """Something that held in answer `number`, about `token`; it is proved when a later answer agrees."""

    token: str
    number: int


class MirrorMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier passes saw. An empty memory is always safe: it only delays.

    `silent_since_s`: Slurm says NOT_RESPONDING. `unready_since_s`: the pod's containers are not ready although Slurm
    has the node. `podless_since_s`: there is no pod. `drained`, `deletable`: findings that wait for a second answer.
    `answered`: the last answers about the jobs on the node (`services`). `unwritten_since_s`: jobs came or went that
    the pod does not show yet. `receipt_at_s`: when the receipt was last written. `wrote_at_s`, `wrote`: when Slurm was
    last written to, and what; older answers do not show it yet.
    """

    silent_since_s: float | None = None
    unready_since_s: float | None = None
    podless_since_s: float | None = None
    drained: Sighting | None = None
    deletable: Sighting | None = None
    answered: ServiceAnswer | None = None
    unwritten_since_s: float | None = None
    receipt_at_s: float = float("-inf")
    wrote_at_s: float = float("-inf")
    wrote: tuple[SlurmWrite, ...] = ()


class View(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known about one name. `answer` is None until Slurm has answered for the first time.

    `are_pods_known`: the pod watch is up, so a pod that is not seen is not there. `namespace` is ours. `slurm_nodes`:
    how many nodes Slurm has in all. `topology`: where the node should stand, as Slurm takes it; None leaves it where
    it is. `place`: the same for people; empty if nobody wants it, and None if it is not known now. `today`: the
    time of day.
    """

    name: str
    namespace: str
    pod: Pod | None
    answer: SlurmAnswer | None
    are_pods_known: bool = True
    memory: MirrorMemory = MirrorMemory()
    slurm_nodes: int = 0
    topology: str | None = None
    place: str | None = ""
    today: datetime = LATEST

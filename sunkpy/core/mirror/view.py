"""The values from which the mirror, a part of the syncer, decides what to write to a Slurm node and to its slurmd pod.

A Slurm node and its slurmd pod have the same name. `View` holds all that is known about one name, and `MirrorMemory`
what earlier decisions about this name saw. Times are seconds of one monotonic clock, except `today`.
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
    """Slurm's last answer about one node; `node` is None if Slurm has no such node.

    `number` counts Slurm's answers; `at_s` is when this one was asked for. `turn_s`: how old the newest answer can
    become while all reads succeed; large clusters take long to answer and are asked less often. `is_trusted`: False if
    the answer for the whole cluster is implausible (`sunkpy.core.mirror.trust`).
    """

    node: SlurmNode | None
    number: int
    at_s: float
    turn_s: float = 0.0
    is_trusted: bool = True


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """A finding about a node, such as that it is drained and idle. Slurm's answer `number` was the first that showed
    it. The finding is proved when a later answer shows it too.

    `token`: the token by which the drain or removal of the slurmd pod was asked for, or the uid of a pod that is gone.
    """

    token: str
    number: int


class MirrorMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier decisions about one node and its slurmd pod saw. An empty memory is always safe: it only delays
    writes.

    `silent_since_s`: since when Slurm says NOT_RESPONDING. `unready_since_s`: since when the pod's containers are not
    ready although Slurm has the node. `podless_since_s`: since when there is no pod. `drained`, `deletable`: findings
    that need a second answer of Slurm. `answered`: Slurm's answers about the jobs on the node (`services`).
    `unwritten_since_s`: since when the pod does not show that jobs came or went. `receipt_at_s`: when the pod's
    receipt, the annotation that confirms its removal token, was last written. `wrote_at_s`, `wrote`: when the mirror
    last wrote to Slurm, and what; Slurm's older answers do not show these writes.
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
    """All that is known about one Slurm node and its slurmd pod.

    `answer`: None until Slurm has answered for the first time. `are_pods_known`: the pod watch is up, so a pod that it
    does not show does not exist. `namespace`: the namespace of the Slurm cluster. `slurm_nodes`: how many nodes Slurm
    has. `topology`: the node's place in the form of Slurm's topology; None leaves Slurm's record as it is. `place`: the
    node's place as the pod's annotation shows it to people; empty removes the annotation, and None leaves it. `today`:
    the present time.
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

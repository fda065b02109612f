"""The nodes of a NodeSet that waiting jobs lack, as the status of the NodeSet says it (`status.growth`).

The syncer writes it, for it reads Slurm's jobs. Autoscalers are asked by it, and people read it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from sunkpy.core.model.objects import Wire

RECORD_MARK: Final = "_potential_"
"""Part of the name of each record of a possible node, after the name of the NodeSet. No pod has `_` in its name, and so
no Slurm node of ours has.
"""


class GrowthRequest(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """So many nodes more for one job, which gets all of them or none.

    `job`: its number, of an array `7_[1-9]`, of a heterogeneous job `7+`. Jobs that fit beside another on one of the
    nodes asked for are not listed.
    """

    job: str = ""
    nodes: int = 0

    @property
    def number(self) -> str:
        """The number of the job. For an array, the part without the tasks that wait, because these become fewer."""
        return self.job.partition("_[")[0]


class GrowthStatus(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """The nodes that are wanted in addition to those that are there or join now (`counted_nodes`). No node is asked for
    twice.

    `requests`: those of the jobs of highest priority, in its order. `reason`: which jobs cannot be helped, and why, if
    there are any. `since`: RFC 3339, from when on nodes have been wanted without a pause; empty while none are.

    For a NodeSet that releases nodes there are also `held`: a job that waits needs its idle nodes, too; and `seen`: RFC
    3339, when Slurm's jobs were last known to want this, by up to two minutes too early.
    """

    wanted_nodes: int = 0
    counted_nodes: int = 0
    requests: tuple[GrowthRequest, ...] = ()
    reason: str = ""
    since: str = ""
    held: bool = False
    seen: str = ""

    @property
    def without_time(self) -> GrowthStatus:
        """The status without its time: it differs only if jobs want something else."""
        return msgspec.structs.replace(self, seen="")

    @property
    def says_something(self) -> bool:
        """True if there is something for people: nodes are wanted, or jobs cannot be helped."""
        return bool(self.wanted_nodes or self.reason)

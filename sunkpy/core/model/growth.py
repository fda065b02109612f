"""`status.growth` of a NodeSet: how many more nodes its waiting jobs need.

The syncer writes it, because it reads Slurm's jobs. sunkpy asks autoscalers for these nodes, and people read the
status.
"""

from __future__ import annotations

from typing import Final

import msgspec

from sunkpy.core.model.objects import Wire

RECORD_MARK: Final = "_potential_"
"""Part of the name of Slurm's record for a node that a NodeSet may get later; the NodeSet's name stands before it. No
pod has `_` in its name, so no real Slurm node of sunkpy has such a name.
"""


class GrowthRequest(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """How many more nodes one waiting job needs; it gets all of them or none.

    `job` is the job's number; for an array `7_[1-9]`, for a heterogeneous job `7+`. A job that fits beside another one
    on the requested nodes has no request of its own.
    """

    job: str = ""
    nodes: int = 0

    @property
    def number(self) -> str:
        """The job's number. For an array the list of waiting tasks is left out, because it becomes shorter."""
        return self.job.partition("_[")[0]


class GrowthStatus(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """The nodes that waiting jobs want from a NodeSet, in addition to those that it has or that join now
    (`counted_nodes`).

    `requests` are from the jobs of highest priority, in the order of priority. `reason` says which jobs more nodes
    cannot help, and why. `since` (RFC 3339): from when on nodes have been wanted without a pause; empty while none are
    wanted.

    Two fields are only for a NodeSet that releases idle nodes: `held` if a waiting job needs its idle nodes, and `seen`
    (RFC 3339), when Slurm's jobs were last read. `seen` may be up to two minutes older than the last read.
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
        """The status without `seen`, so that two statuses differ only if jobs want something else."""
        return msgspec.structs.replace(self, seen="")

    @property
    def says_something(self) -> bool:
        """True if people should see the status: nodes are wanted, or there are jobs that more nodes cannot help."""
        return bool(self.wanted_nodes or self.reason)

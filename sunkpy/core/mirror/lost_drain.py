"""A drain that somebody set in Slurm, and that Slurm has lost with its record of the node.

The record is lost when slurmctld loses its state, or when somebody deletes it. The cause of the drain is still there.
The pod keeps the reason (`sunkpy.dev/drain`), also while Slurm cannot be read. A new record has no comment yet: the
syncer writes one to each node that registers.
"""

from __future__ import annotations

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import SlurmNode


def lost_drain(pod: Pod, node: SlurmNode | None) -> str | None:
    """The reason of the lost drain, if Slurm has no record of the node or a new one that is open; otherwise None."""
    reason = pod.annotations.get(names.ANNOTATION_DRAIN)
    if reason is None or reason.startswith(names.REASON_PREFIX):
        return None
    is_lost = node is None or (not node.comment and not node.is_closed)
    return reason if is_lost else None

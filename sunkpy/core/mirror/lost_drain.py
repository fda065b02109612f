"""A drain that somebody set in Slurm, and that Slurm has lost with its record of the node.

The record is lost when slurmctld loses its state, or when somebody deletes the node. The cause of the drain is still
there, so the syncer sets the drain again. It finds the reason on the slurmd pod (`sunkpy.dev/drain`), which keeps it
also while Slurm cannot be read. It recognises a new record by the empty comment: it writes one to each node that
registers.
"""

from __future__ import annotations

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import SlurmNode


def lost_drain(pod: Pod, node: SlurmNode | None) -> str | None:
    """Return the reason of somebody else's drain that Slurm lost: it has no record of the node, or a new, open one."""
    reason = pod.annotations.get(names.ANNOTATION_DRAIN)
    if reason is None or reason.startswith(names.REASON_PREFIX):
        return None
    is_lost = node is None or (not node.comment and not node.is_closed)
    return reason if is_lost else None

"""Finds a drain that somebody set in Slurm, and that Slurm has lost together with its record of the node.

Slurm loses the record when slurmctld loses its state, or when somebody deletes the node. The cause of the drain is
still there, so the syncer sets the drain again. The reason is still on the slurmd pod (`sunkpy.dev/drain`), also while
Slurm cannot be read. A record without a comment is new: the syncer writes a comment to each node that registers.
"""

from __future__ import annotations

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import SlurmNode


def lost_drain(pod: Pod, node: SlurmNode | None) -> str | None:
    """Return the reason of a drain that Slurm lost and that somebody other than sunkpy had set; None if no drain is
    lost.

    A drain is lost if the slurmd pod still shows it, and Slurm has no record of the node, or a new one without a drain.
    """
    reason = pod.annotations.get(names.ANNOTATION_DRAIN)
    if reason is None or reason.startswith(names.REASON_PREFIX):
        return None
    is_lost = node is None or (not node.comment and not node.is_closed)
    return reason if is_lost else None

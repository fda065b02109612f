"""Recognises a Slurm node that slurmctld set DOWN by itself, and whose slurmd answers again.

With `ReturnToService=1` slurmctld returns such a node only if its machine was not booted meanwhile, and only if the
node had no other reason when slurmctld set it DOWN. If the machine was booted without Slurm's knowledge, the node stays
DOWN with the reason `Node unexpectedly rebooted`. If sunkpy had drained the node before, it stays DOWN with the reason
of the drain, also once the drain is lifted. If it had any other reason, even a blank one, slurmctld adds ` : Not
responding` to it. slurmctld does not return such nodes, so sunkpy does, unless the reason is a person's.

Source: slurmctld, validate_node_specs and update_node. A node whose machine lacks what Slurm's record promises, such as
a GPU, is not meant here: slurmctld gives it another reason, or INVALID_REG.
"""

from __future__ import annotations

from sunkpy.core.model.states import NOT_RESPONDING, SlurmNode


def is_given_up(node: SlurmNode) -> bool:
    """True if slurmctld set the node DOWN by itself and its slurmd answers: nobody has drained the node or set it DOWN,
    and its hardware is what Slurm's record says.

    A node with the reason `Not responding` does not count: slurmctld returns it by itself, or writes another reason.
    """
    is_wanted = node.is_held_by_others or node.is_drain or node.is_invalid
    is_awaited = node.is_not_responding or node.reason == NOT_RESPONDING
    return node.is_down and not is_awaited and not is_wanted

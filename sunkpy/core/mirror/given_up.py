"""A Slurm node that slurmctld has given up by itself, and whose slurmd is there again.

With `ReturnToService=1` slurmctld itself returns such a node only if its machine was not booted meanwhile, and only if
no other reason stood when it gave it up. A machine that was booted without Slurm's knowledge leaves it DOWN, as `Node
unexpectedly rebooted`; one that had a drain of ours by then leaves it DOWN with the reason of the drain, and with none
once that is lifted. Nobody else returns it.

Source: slurmctld, validate_node_specs and update_node. For a machine that lacks what the node promises, such as a GPU,
slurmctld writes a reason of its own, or INVALID_REG.
"""

from __future__ import annotations

from sunkpy.core.model.states import NOT_RESPONDING, SlurmNode


def is_given_up(node: SlurmNode) -> bool:
    """slurmctld does not use the node although its slurmd answers, and nobody wants it so.

    With the reason `Not responding` alone slurmctld returns it by itself, or gives another reason.
    """
    is_wanted = node.is_held_by_others or node.is_drain or node.is_invalid
    is_awaited = node.is_not_responding or node.reason == NOT_RESPONDING
    return node.is_down and not is_awaited and not is_wanted

"""When an answer of Slurm is too implausible to act on, and when too much would be done at once.

`sunkpy.syncer.collect` asks `find_vanished` about each answer of Slurm. While it finds any, no answer is
trusted: `decide_mirror` writes nothing to Slurm and withdraws receipts.
`sunkpy.syncer.execute` spends the `ActionBudget`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import Pod

MASS_SHARE = 0.2
MASS_FLOOR = 3
WINDOW_S = 60.0


def find_vanished(expected: Collection[str], slurm_nodes: Container[str]) -> tuple[str, ...]:
    """Expected nodes (`is_expected`) that Slurm does not have, if they are too many for an accident; else none.

    A Slurm node of ours goes after its pod, so this means that slurmctld lost its state or answers for another
    cluster. One is allowed (an admin may delete a node), and so is a fifth of them.
    """
    vanished = [name for name in expected if name not in slurm_nodes]
    allowed = max(1, math.ceil(MASS_SHARE * len(expected)))
    return tuple(sorted(vanished)) if len(vanished) > allowed else ()


def is_expected(pod: Pod) -> bool:
    """Slurm should have the node of this pod: it had it before, and the pod is not being removed."""
    return not pod.is_deleting and pod.is_condition_true(names.READINESS_GATE)


class ActionBudget(msgspec.Struct, frozen=True):
    """Counts the actions that nobody announced. Each minute it allows a fifth of the nodes, or three if
    that is more.
    """

    spent_at_s: tuple[float, ...] = ()

    def spend(self, *, nodes: int, now_s: float) -> tuple[ActionBudget, bool]:
        """The budget after one more action, and whether it may be done."""
        recent = tuple(at_s for at_s in self.spent_at_s if now_s - at_s < WINDOW_S)
        if len(recent) >= max(MASS_FLOOR, math.ceil(MASS_SHARE * nodes)):
            return ActionBudget(recent), False
        return ActionBudget((*recent, now_s)), True

    def give_back(self) -> ActionBudget:
        """The budget without the newest action: it was refused, or was not needed."""
        return ActionBudget(self.spent_at_s[:-1])

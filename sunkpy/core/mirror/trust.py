"""Decides when an answer of Slurm is too implausible to act on, and how many actions that nobody asked for are allowed
each minute.

`sunkpy.syncer.collect` asks `find_vanished` about each answer of Slurm. While nodes have vanished, no answer is
trusted: `decide_mirror` writes nothing to Slurm, and withdraws receipts (the annotations of slurmd pods that say that
no job is on a node which is to be removed). `sunkpy.syncer.execute` counts actions in `ActionBudget`.
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
    """Return the expected nodes (`is_expected`) that Slurm does not have. Empty if only one is missing, or at most a
    fifth of them (rounded up).

    sunkpy deletes a Slurm node after its pod, so many missing nodes mean that slurmctld lost its state or answers for
    another cluster. One may be missing because an admin has deleted it.
    """
    vanished = [name for name in expected if name not in slurm_nodes]
    allowed = max(1, math.ceil(MASS_SHARE * len(expected)))
    return tuple(sorted(vanished)) if len(vanished) > allowed else ()


def is_expected(pod: Pod) -> bool:
    """True if Slurm should have this pod's node: the node had registered, and the pod is not being deleted."""
    return not pod.is_deleting and pod.is_condition_true(names.READINESS_GATE)


class ActionBudget(msgspec.Struct, frozen=True):
    """Counts the drains and deletions of Slurm nodes that neither a person nor the operator asked for.

    Within any 60 seconds it allows as many as a fifth of Slurm's nodes (rounded up), and three in any case.
    `spent_at_s`: when actions were allowed.
    """

    spent_at_s: tuple[float, ...] = ()

    def spend(self, *, nodes: int, now_s: float) -> tuple[ActionBudget, bool]:
        """Return the budget after one more drain or deletion, and whether this action is allowed. An action that is not
        allowed is not counted. `nodes`: how many Slurm nodes there are.
        """
        recent = tuple(at_s for at_s in self.spent_at_s if now_s - at_s < WINDOW_S)
        if len(recent) >= max(MASS_FLOOR, math.ceil(MASS_SHARE * nodes)):
            return ActionBudget(recent), False
        return ActionBudget((*recent, now_s)), True

    def give_back(self) -> ActionBudget:
        """Return the budget without the newest counted action, because Slurm refused it or it was not needed."""
        return ActionBudget(self.spent_at_s[:-1])

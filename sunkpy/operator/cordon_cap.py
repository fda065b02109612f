"""How many Nodes are cordoned or tainted because of drains in Slurm, and whether one more may be.

`scontrol update nodename=ALL state=drain` is one line, and without a cap it would take every Node of the pool from
Kubernetes.
"""

from __future__ import annotations

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.nodeset.node_mark import MarkLimit, is_marked
from sunkpy.operator.node_cap import NodeCap
from sunkpy.operator.settings import SlurmDrainSettings


class CordonCap(NodeCap):
    """The cap on Nodes that sunkpy has cordoned or tainted because of drains in Slurm."""

    def __init__(self, settings: SlurmDrainSettings) -> None:
        super().__init__(is_marked, settings.max_percent)
        self._policy = settings.policy

    def marking(self, node: Node, pod: Pod | None) -> MarkLimit:
        """Return the policy, and whether this Node may be marked, too. Call `note` before the next await."""
        is_drained = pod is not None and pod.is_condition_true(names.CONDITION_CORDON)
        return MarkLimit(policy=self._policy, has_room=self.has_room(node, pod) or not is_drained)

"""Limits how many Nodes are cordoned or tainted because their Slurm nodes are drained.

The one command `scontrol update nodename=ALL state=drain` drains all Slurm nodes. Without the limit it would take every
Node of the pool from Kubernetes.
"""

from __future__ import annotations

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.nodeset.node_mark import MarkLimit, is_marked
from sunkpy.operator.node_cap import NodeCap
from sunkpy.operator.settings import SlurmDrainSettings


class CordonCap(NodeCap):
    """The limit on the number of Nodes that sunkpy cordons or taints because of drains in Slurm."""

    def __init__(self, settings: SlurmDrainSettings) -> None:
        super().__init__(is_marked, settings.max_percent)
        self._policy = settings.policy

    def marking(self, node: Node, pod: Pod | None) -> MarkLimit:
        """Return the drain policy, and whether this Node may be cordoned or tainted; always True if nobody has drained
        its Slurm node. If the Node is then cordoned or tainted, call `note` before the next await, so that the Node
        counts.
        """
        is_drained = pod is not None and pod.is_condition_true(names.CONDITION_CORDON)
        return MarkLimit(policy=self._policy, has_room=self.has_room(node, pod) or not is_drained)

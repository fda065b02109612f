"""How many Nodes are cordoned or tainted because of drains in Slurm, and whether one more may be.

`scontrol update nodename=ALL state=drain` is one line, and without a cap it would take every Node of the pool from
Kubernetes. The cap limits the number, not the rate: further Nodes are held back until others are freed or a person
raises it.
"""

from __future__ import annotations

import math
from collections import Counter

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.nodeset.node_mark import MarkLimit, is_marked
from sunkpy.operator.settings import SlurmDrainSettings

MARKED_FLOOR = 3
_NO_CLUSTER = ""


class CordonCap:
    """Counts by what the watch shows, and by what was decided and is not shown yet."""

    def __init__(self, settings: SlurmDrainSettings) -> None:
        self._settings = settings
        self._pool: Counter[str] = Counter()
        self._marked: Counter[str] = Counter()
        self._under_way: dict[str, str] = {}
        self._deciding: Counter[str] = Counter()

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Follow the watch of Nodes."""
        for node, by in ((old, -1), (new, 1)):
            if node is not None:
                self._pool[_cluster_of(node)] += by
                self._marked[_cluster_of(node)] += by * is_marked(node)
        if old is not None and (new is None or is_marked(new)):
            self._settle(old.name)

    def marking(self, node: Node, pod: Pod | None) -> MarkLimit:
        """The policy, and whether this Node may be marked too; decide on it and `note` without an await between."""
        self._settle(node.name)
        if pod is None or is_marked(node) or not pod.is_condition_true(names.CONDITION_CORDON):
            return MarkLimit(policy=self._settings.policy)
        cluster = pod.labels.get(names.LABEL_CLUSTER, _NO_CLUSTER)
        # A Node whose slurmd pod is gone has no label any more, and its cordon stays: it counts for every cluster.
        marked = self._marked[cluster] + self._deciding[cluster]
        marked += self._marked[_NO_CLUSTER] if cluster != _NO_CLUSTER else 0
        cap = max(MARKED_FLOOR, math.ceil(self._settings.max_percent * self._pool[cluster] / 100))
        return MarkLimit(policy=self._settings.policy, has_room=marked < cap)

    def note(self, node: Node, pod: Pod) -> None:
        """This Node is being marked: it counts although the watch does not show it yet."""
        cluster = pod.labels.get(names.LABEL_CLUSTER, _NO_CLUSTER)
        self._under_way[node.name] = cluster
        self._deciding[cluster] += 1

    def _settle(self, name: str) -> None:
        """The watch shows the decision, or it is being made again."""
        cluster = self._under_way.pop(name, None)
        if cluster is not None:
            self._deciding[cluster] -= 1


def _cluster_of(node: Node) -> str:
    return node.labels.get(names.LABEL_CLUSTER, _NO_CLUSTER)

"""Counts the Nodes of each Slurm cluster that are closed in one way, such as by a cordon, and limits their number.

The limit is on the number, not on the rate: further Nodes stay open until others are opened or a person raises the
limit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod

CLOSED_FLOOR = 3
_NO_CLUSTER = ""


class NodeCap:
    """Counts closed Nodes by Slurm cluster, and allows `max_percent` of a cluster's Nodes to be closed, but at least
    three. `is_closed` says what counts as closed; a decision to close a Node counts before the watch shows it.
    """

    def __init__(self, is_closed: Callable[[Node], bool], max_percent: int) -> None:
        self._is_closed = is_closed
        self._max_percent = max_percent
        self._pool: Counter[str] = Counter()
        self._closed: Counter[str] = Counter()
        self._under_way: dict[str, str] = {}
        self._deciding: Counter[str] = Counter()

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Update the counts of Nodes and closed Nodes after a change from the watch of Nodes."""
        for node, by in ((old, -1), (new, 1)):
            if node is not None:
                self._pool[_of_node(node)] += by
                self._closed[_of_node(node)] += by * self._is_closed(node)
        if old is not None and (new is None or self._is_closed(new)):
            self._settle(old.name)

    def has_room(self, node: Node, pod: Pod | None) -> bool:
        """True if the limit allows to close this Node, or if it is closed already. Decide on the answer and call `note`
        without an await between.
        """
        self._settle(node.name)
        if self._is_closed(node):
            return True
        cluster = _cluster_of(node, pod)
        # A Node whose slurmd pod is gone has no label any more, and stays closed: it counts for every cluster.
        closed = self._closed[cluster] + self._deciding[cluster]
        closed += self._closed[_NO_CLUSTER] if cluster != _NO_CLUSTER else 0
        return closed < max(CLOSED_FLOOR, math.ceil(self._max_percent * self._pool[cluster] / 100))

    def note(self, node: Node, pod: Pod | None) -> None:
        """Count this Node as closed now, although the watch does not show it yet."""
        cluster = _cluster_of(node, pod)
        self._under_way[node.name] = cluster
        self._deciding[cluster] += 1

    def _settle(self, name: str) -> None:
        """Stop counting a decision to close this Node: the watch shows the closed Node, or it is decided again."""
        cluster = self._under_way.pop(name, None)
        if cluster is not None:
            self._deciding[cluster] -= 1


def _of_node(node: Node) -> str:
    return node.labels.get(names.LABEL_CLUSTER, _NO_CLUSTER)


def _cluster_of(node: Node, pod: Pod | None) -> str:
    return pod.labels.get(names.LABEL_CLUSTER, _NO_CLUSTER) if pod is not None else _of_node(node)

"""How many Nodes are cordoned or tainted because of drains in Slurm, and whether one more may be.

`scontrol update nodename=ALL state=drain` is one line, and without a cap it would take every Node of the pool from
Kubernetes. The cap is no rate: what is beyond it is held until Nodes are freed or a person raises it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.nodeset.marks import Marking, is_marked
from sunkpy.operator.settings import SlurmDrainSettings

MARKED_FLOOR = 3


class Marks:
    """Counts by what the watch shows, and by what was decided and is not shown yet."""

    def __init__(self, nodes: Callable[[], Iterable[Node]], settings: SlurmDrainSettings) -> None:
        self._nodes = nodes
        self._settings = settings
        self._under_way: dict[str, str] = {}

    def marking(self, node: Node, pod: Pod | None) -> Marking:
        """The policy, and whether this Node may be marked too; decide on it and `note` without an await between."""
        self._under_way.pop(node.name, None)
        if pod is None or is_marked(node) or not pod.is_condition_true(names.CONDITION_CORDON):
            return Marking(policy=self._settings.policy)
        cluster = pod.labels.get(names.LABEL_CLUSTER, "")
        nodes = list(self._nodes())
        pool = sum(other.labels.get(names.LABEL_CLUSTER) == cluster for other in nodes)
        marked = sum(self._is_marked_for(other, cluster) for other in nodes)
        cap = max(MARKED_FLOOR, math.ceil(self._settings.max_percent * pool / 100))
        return Marking(policy=self._settings.policy, has_room=marked < cap)

    def note(self, node: Node, pod: Pod) -> None:
        """This Node is being marked: it counts although the watch does not show it yet."""
        self._under_way[node.name] = pod.labels.get(names.LABEL_CLUSTER, "")

    def _is_marked_for(self, node: Node, cluster: str) -> bool:
        """A Node whose slurmd pod is gone has no label any more, and its cordon stays: it counts for every cluster."""
        if self._under_way.get(node.name) == cluster:
            return True
        return is_marked(node) and node.labels.get(names.LABEL_CLUSTER, cluster) == cluster

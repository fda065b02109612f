"""Metric `sunkpy_node_drain_seconds_total`: for how long each node was draining (with jobs) and drained (without).

The time between two reads of a node counts only if the node was in the same one of these states at both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sunkpy.core.figures.family import MetricFamily, Sample
from sunkpy.core.figures.nodes import is_drained, is_draining
from sunkpy.core.model.states import SlurmNode


class DrainTimes:
    """How long each node was draining and how long it was drained, as one leader of the syncer has counted it since its
    start. `nodeset_of`: returns the NodeSet of a Slurm node; empty if there is none.
    """

    def __init__(self, nodeset_of: Callable[[str], str]) -> None:
        self._nodeset_of = nodeset_of
        self._nodesets: dict[str, str] = {}
        self._seconds: dict[tuple[str, str], float] = {}
        self._before: dict[str, str] = {}
        self._at_s = 0.0

    def add(self, nodes: Mapping[str, SlurmNode], now_s: float) -> None:
        """Add the time since the last read for each node that was draining at both reads, or drained at both. `now_s`
        is monotonic. Nodes that Slurm no longer has are dropped.
        """
        now = {name: state for name, node in nodes.items() if (state := _state(node))}
        for name, state in now.items():
            self._nodesets[name] = self._nodeset_of(name) or self._nodesets.get(name, "")
            passed_s = now_s - self._at_s if self._before.get(name) == state else 0.0
            self._seconds[name, state] = self._seconds.get((name, state), 0.0) + passed_s
        self._seconds = {key: seconds for key, seconds in self._seconds.items() if key[0] in nodes}
        self._nodesets = {name: nodeset for name, nodeset in self._nodesets.items() if name in nodes}
        self._before, self._at_s = now, now_s

    @property
    def family(self) -> MetricFamily:
        """The metric `sunkpy_node_drain_seconds_total`."""
        return MetricFamily(
            name="sunkpy_node_drain_seconds_total",
            help="Seconds for which a Slurm node was drained, by `state`: `draining` while jobs were on it, `drained` "
            "while none was",
            labels=("node", "nodeset", "state"),
            samples=[
                Sample((name, self._nodesets[name], state), seconds) for (name, state), seconds in self._seconds.items()
            ],
        )


def _state(node: SlurmNode) -> str:
    return "draining" if is_draining(node.state) else "drained" if is_drained(node.state) else ""

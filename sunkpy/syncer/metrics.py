"""What the syncer tells Prometheus: the names of SUNK's syncer for nodes, our own for ourselves."""

from __future__ import annotations

from collections import Counter as Counted
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sunkpy.core.model.states import SlurmNode
from sunkpy.slurm import NodeCache

_NODE_GAUGES: Mapping[str, Callable[[SlurmNode], bool]] = {
    "alloc": lambda node: "ALLOCATED" in node.state,
    "comp": lambda node: "COMPLETING" in node.state,
    "down": lambda node: "DOWN" in node.state,
    "drain": lambda node: node.is_drain,
    "err": lambda node: "ERROR" in node.state,
    "fail": lambda node: "FAIL" in node.state,
    "idle": lambda node: "IDLE" in node.state,
    "maint": lambda node: "MAINTENANCE" in node.state,
    "mix": lambda node: "MIXED" in node.state,
    "not_responding": lambda node: node.is_not_responding,
    "resv": lambda node: "RESERVED" in node.state,
    "total": lambda node: True,
}


class SyncerMetrics:
    """What was done, what was put off, and whether Slurm is believed."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.actions = Counter("sunkpy_syncer_actions", "Actions carried out", ["action"], registry=registry)
        self.capped = Counter(
            "sunkpy_syncer_capped", "Actions put off because too many were due at once", ["action"], registry=registry
        )
        self.believed = Gauge(
            "sunkpy_syncer_slurm_believed", "0 while Slurm's answer is too strange to act on", registry=registry
        )
        self.believed.set(1)
        self.readable = Gauge(
            "sunkpy_syncer_slurm_readable", "0 while Slurm's last answer is too old to act on", registry=registry
        )
        self.readable.set(1)


class NodeCollector(Collector):
    """`slurm_nodes_*` and the age of the cache, computed from the last answer when scraped."""

    def __init__(self, cache: NodeCache) -> None:
        self._cache = cache

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Nothing but the age before Slurm has answered: no answer is not zero nodes."""
        yield GaugeMetricFamily(
            "sunkpy_slurm_cache_age_seconds", "Age of the newest answer of Slurm", value=self._cache.age_s
        )
        observation = self._cache.observation
        if observation is None:
            return
        # All of it hangs on the state alone, and thousands of nodes are in few states.
        states = Counted(node.state for node in observation.nodes.values())
        for name, predicate in _NODE_GAUGES.items():
            count = sum(n for state, n in states.items() if predicate(SlurmNode(name="", state=state)))
            yield GaugeMetricFamily(f"slurm_nodes_{name}", f"Slurm nodes: {name}", value=count)

"""Metrics of the syncer: those of nodes have the names of SUNK's syncer."""

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
    """What was done, what was postponed, and whether Slurm is readable and plausible."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.actions = Counter(
            "sunkpy_syncer_actions", "Actions carried out, by `action`", ["action"], registry=registry
        )
        self.capped = Counter(
            "sunkpy_syncer_capped",
            "Actions delayed because too many were due at once. Rising: see TooManyAtOnce",
            ["action"],
            registry=registry,
        )
        self.believed = Gauge(
            "sunkpy_syncer_slurm_believed",
            "0: Slurm answers without its nodes, and nothing is written; see SlurmNotBelieved",
            registry=registry,
        )
        self.believed.set(1)
        self.readable = Gauge(
            "sunkpy_syncer_slurm_readable",
            "0: Slurm cannot be read, and pods keep their last known state",
            registry=registry,
        )
        self.readable.set(1)


class NodeCollector(Collector):
    """`slurm_nodes_*` and the age of the cache, computed from the last answer when scraped."""

    def __init__(self, cache: NodeCache) -> None:
        self._cache = cache

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Only the age until Slurm has answered: no answer is not the same as zero nodes."""
        yield GaugeMetricFamily(
            "sunkpy_slurm_cache_age_seconds",
            "Age of the newest answer of Slurm. Normal is below 2, in large busy clusters below 6. 5 s above that "
            "nothing is written to Slurm, 10 s above that nothing is written to pods",
            value=self._cache.age_s,
        )
        observation = self._cache.observation
        if observation is None:
            return
        # All of it depends on the state alone, and thousands of nodes are in few states.
        states = Counted(node.state for node in observation.nodes.values())
        for name, predicate in _NODE_GAUGES.items():
            count = sum(n for state, n in states.items() if predicate(SlurmNode(name="", state=state)))
            yield GaugeMetricFamily(
                f"slurm_nodes_{name}", f"Number of Slurm nodes: {name.replace('_', ' ')}", value=count
            )

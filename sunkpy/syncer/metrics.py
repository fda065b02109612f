"""Metrics of the syncer; the larger part of Slurm's figures is made in `sunkpy.syncer.figures`."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sunkpy.core.figures.nodes import state_families
from sunkpy.slurm import NodeCache


class SyncerMetrics:
    """Metrics of the syncer: what was done, what was postponed, and whether Slurm is readable and plausible."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.actions = Counter(
            "sunkpy_syncer_actions",
            "Actions that the syncer has carried out, by `action`",
            ["action"],
            registry=registry,
        )
        self.capped = Counter(
            "sunkpy_syncer_capped",
            "Actions that the syncer delayed because too many were due at once. If it rises, see TooManyAtOnce",
            ["action"],
            registry=registry,
        )
        self.believed = Gauge(
            "sunkpy_syncer_slurm_believed",
            "0: Slurm's answers lack too many nodes, so the syncer writes nothing; see SlurmNotBelieved",
            registry=registry,
        )
        self.believed.set(1)
        self.readable = Gauge(
            "sunkpy_syncer_slurm_readable",
            "0: Slurm cannot be read, and pods keep their last known state",
            registry=registry,
        )
        self.readable.set(1)
        self.wanted_nodes = Gauge(
            "sunkpy_nodeset_wanted_nodes",
            "How many more nodes of a NodeSet jobs need. Nodes that are there or are joining do not count. The metric "
            "does not exist without growth.potential",
            ["nodeset"],
            registry=registry,
        )
        self.idle_checks = Counter(
            "sunkpy_idle_checks",
            "Checks of idle nodes that have ended, by NodeSet and `outcome`: passed, failed or not made, such as "
            "those that another job preempted",
            ["nodeset", "outcome"],
            registry=registry,
        )
        self.idle_checks_halted = Gauge(
            "sunkpy_nodeset_idle_checks_halted",
            "1: no further check of an idle node of the NodeSet begins, because too many have failed and their nodes "
            "are not cured. The metric does not exist without compute.verify.idle",
            ["nodeset"],
            registry=registry,
        )
        self.oldest_check = Gauge(
            "sunkpy_nodeset_oldest_check_timestamp_seconds",
            "The time of the oldest among the last checks of the nodes of a NodeSet. The metric does not exist without "
            "compute.verify.idle",
            ["nodeset"],
            registry=registry,
        )


class NodeCollector(Collector):
    """`slurm_nodes_*` and the age of the cache, computed from the last answer when scraped."""

    def __init__(self, cache: NodeCache) -> None:
        self._cache = cache

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Give only the age until Slurm has answered: no answer is not the same as zero nodes."""
        yield GaugeMetricFamily(
            "sunkpy_slurm_cache_age_seconds",
            "Age of the newest answer of Slurm. Below 2 is normal, below 6 in large busy clusters. If it is "
            "5 s above that, the syncer writes nothing to Slurm; if 10 s, nothing to pods",
            value=self._cache.age_s,
        )
        observation = self._cache.observation
        if observation is None:
            return
        for family in state_families(observation.nodes.values()):
            yield GaugeMetricFamily(family.name, family.help, value=family.samples[0].value)

"""Metrics of the syncer. Most metrics of Slurm itself are made in `sunkpy.syncer.figures`."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sunkpy.core.figures.nodes import state_families
from sunkpy.slurm import NodeCache


class SyncerMetrics:
    """The metrics of the syncer about its own work: its writes, the postponed ones, and whether Slurm's answers can be
    read and believed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.actions = Counter(
            "sunkpy_syncer_actions",
            "Writes of the syncer to Slurm and to slurmd pods, by `action`",
            ["action"],
            registry=registry,
        )
        self.capped = Counter(
            "sunkpy_syncer_capped",
            "Writes to Slurm that the syncer postponed, because too many were due at once. If it rises, see Event "
            "TooManyAtOnce",
            ["action"],
            registry=registry,
        )
        self.believed = Gauge(
            "sunkpy_syncer_slurm_believed",
            "0: Slurm's answers lack too many nodes, so the syncer writes nothing to Slurm; see Event SlurmNotBelieved",
            registry=registry,
        )
        self.believed.set(1)
        self.readable = Gauge(
            "sunkpy_syncer_slurm_readable",
            "0: the syncer cannot read Slurm, so slurmd pods keep their last known state",
            registry=registry,
        )
        self.readable.set(1)
        self.wanted_nodes = Gauge(
            "sunkpy_nodeset_wanted_nodes",
            "How many more nodes of a NodeSet waiting jobs need, beyond the nodes that are there or are joining. "
            "The metric does not exist without growth.potential",
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
            "1: the syncer begins no check of idle nodes of the NodeSet, because too many checks have failed on "
            "nodes that are not cured yet. The metric does not exist without compute.verify.idle",
            ["nodeset"],
            registry=registry,
        )
        self.oldest_check = Gauge(
            "sunkpy_nodeset_oldest_check_timestamp_seconds",
            "The time of the last check of that node of the NodeSet whose last check is the oldest. The metric "
            "does not exist without compute.verify.idle",
            ["nodeset"],
            registry=registry,
        )


class NodeCollector(Collector):
    """Makes the metrics `slurm_nodes_*` and the age of Slurm's last answer, at each scrape, from the cache of that
    answer.
    """

    def __init__(self, cache: NodeCache) -> None:
        self._cache = cache

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Yield `slurm_nodes_*` and the age of Slurm's last answer. Until Slurm has answered, yield only the age: no
        answer is not the same as no nodes.
        """
        yield GaugeMetricFamily(
            "sunkpy_slurm_cache_age_seconds",
            "Seconds since the syncer's newest answer from Slurm. Below 2 is normal, below 6 in large busy "
            "clusters. 5 s above that, the syncer writes nothing to Slurm; 10 s above that, it only takes back its "
            "notes on slurmd pods that their nodes are drained and idle",
            value=self._cache.age_s,
        )
        observation = self._cache.observation
        if observation is None:
            return
        for family in state_families(observation.nodes.values()):
            yield GaugeMetricFamily(family.name, family.help, value=family.samples[0].value)

"""Metrics of the operator. Names of the `kube_sunk_nodeset_*` gauges are SUNK's, so its dashboards work unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sunkpy.core.model.objects import Key
from sunkpy.core.nodeset.spec import NodeSet, NodeSetStatus

_GAUGES = {
    "kube_sunk_nodeset_desired": ("desired_number_scheduled", "Pods wanted"),
    "kube_sunk_nodeset_feasible": ("number_feasible", "Nodes that could carry a pod"),
    "kube_sunk_nodeset_current": ("current_number_scheduled", "Pods on feasible nodes"),
    "kube_sunk_nodeset_ready": ("number_ready", "Pods that are ready"),
    "kube_sunk_nodeset_drained": ("number_drain", "Pods whose Slurm node drains or is drained"),
    "kube_sunk_nodeset_running": ("number_running", "Pods whose Slurm node runs jobs"),
    "kube_sunk_nodeset_misscheduled": ("number_misscheduled", "Pods on nodes that are not feasible"),
    "kube_sunk_nodeset_unavailable": ("number_unavailable", "Pods missing, not ready or about to go"),
    "kube_sunk_nodeset_updated": ("updated_number_scheduled", "Pods of the current template"),
}
_LABELS = ("namespace", "nodeset", "cluster")


class OperatorMetrics(Collector):
    """Gauges are read from the last statuses at scrape time: a deleted NodeSet leaves no series behind."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._statuses: dict[Key, tuple[str, NodeSetStatus]] = {}
        self.created = Counter(
            "sunkpy_nodeset_pods_created", "slurmd pods created", ["namespace", "nodeset"], registry=registry
        )
        self.deleted = Counter(
            "sunkpy_nodeset_pods_deleted",
            "slurmd pods deleted. `why` is `failed`, and rising: pods die at start; `drain-timeout`: jobs were killed",
            ["namespace", "nodeset", "why"],
            registry=registry,
        )
        registry.register(self)

    def observe(self, nodeset: NodeSet, status: NodeSetStatus) -> None:
        """Keep the newest status for the next scrape."""
        self._statuses[nodeset.key] = (nodeset.spec.cluster, status)

    def forget(self, key: Key) -> None:
        """The NodeSet is gone: its series end."""
        self._statuses.pop(key, None)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One family per gauge (prometheus_client calls this at scrape)."""
        for name, (field, help_text) in _GAUGES.items():
            yield self._family(
                name, help_text, ((key, c, float(getattr(s, field))) for key, (c, s) in self._statuses.items())
            )
        held = (
            (key, cluster, float(status.condition("RemovalHeld") is not None))
            for key, (cluster, status) in self._statuses.items()
        )
        yield self._family(
            "sunkpy_nodeset_removal_held", "1: too many pods would have to leave at once; see RemovalHeld", held
        )

    def _family(self, name: str, help_text: str, rows: Iterable[tuple[Key, str, float]]) -> GaugeMetricFamily:
        family = GaugeMetricFamily(name, help_text, labels=_LABELS)
        for (namespace, nodeset), cluster, value in rows:
            family.add_metric((namespace, nodeset, cluster), value)
        return family

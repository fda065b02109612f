"""Metrics of the operator. Names of the `kube_sunk_nodeset_*` gauges are SUNK's, so its dashboards work unchanged."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sunkpy.core import names
from sunkpy.core.health import Record, State, read_record
from sunkpy.core.health.record import time_of
from sunkpy.core.health.verification import REQUESTED
from sunkpy.core.model.objects import Key, Node
from sunkpy.core.nodeset.spec import NodeSet, NodeSetStatus

_GAUGES = {
    "kube_sunk_nodeset_desired": ("desired_number_scheduled", "slurmd pods that the NodeSet wants"),
    "kube_sunk_nodeset_feasible": ("number_feasible", "Nodes that fit the NodeSet, with or without a slurmd pod"),
    "kube_sunk_nodeset_current": ("current_number_scheduled", "slurmd pods of the NodeSet on Nodes that fit it"),
    "kube_sunk_nodeset_ready": ("number_ready", "slurmd pods of the NodeSet that are ready"),
    "kube_sunk_nodeset_drained": ("number_drain", "slurmd pods of the NodeSet whose Slurm node drains or is drained"),
    "kube_sunk_nodeset_running": ("number_running", "slurmd pods of the NodeSet whose Slurm node runs jobs"),
    "kube_sunk_nodeset_misscheduled": ("number_misscheduled", "slurmd pods on Nodes that no longer fit the NodeSet"),
    "kube_sunk_nodeset_unavailable": ("number_unavailable", "slurmd pods that are missing, not ready or being removed"),
    "kube_sunk_nodeset_updated": ("updated_number_scheduled", "slurmd pods made from the NodeSet's current template"),
}
_LABELS = ("namespace", "nodeset", "cluster")


class OperatorMetrics(Collector):
    """The metrics of the operator. Gauges are made from the last statuses of NodeSets at each scrape, so a deleted
    NodeSet leaves no series behind.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._statuses: dict[Key, tuple[str, NodeSetStatus]] = {}
        self.created = Counter(
            "sunkpy_nodeset_pods_created",
            "slurmd pods that the operator has created",
            ["namespace", "nodeset"],
            registry=registry,
        )
        self.deleted = Counter(
            "sunkpy_nodeset_pods_deleted",
            "slurmd pods that the operator has deleted, by `why`. If `failed` rises, pods die at their start. "
            "`drain-timeout`: the deletion killed jobs",
            ["namespace", "nodeset", "why"],
            registry=registry,
        )
        self.health = HealthMetrics(registry)
        registry.register(self)

    def observe(self, nodeset: NodeSet, status: NodeSetStatus) -> None:
        """Keep the newest status of a NodeSet for the next scrape."""
        self._statuses[nodeset.key] = (nodeset.spec.cluster, status)

    def forget(self, key: Key) -> None:
        """Drop the series of a NodeSet that is gone."""
        self._statuses.pop(key, None)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges of all NodeSets. prometheus_client calls this at each scrape."""
        for name, (field, help_text) in _GAUGES.items():
            yield self._family(
                name, help_text, ((key, c, float(getattr(s, field))) for key, (c, s) in self._statuses.items())
            )
        held = (
            (key, cluster, float(status.condition("RemovalHeld") is not None))
            for key, (cluster, status) in self._statuses.items()
        )
        yield self._family(
            "sunkpy_nodeset_removal_held",
            "1: the operator removes no slurmd pod of the NodeSet, because too many would have to go at once; see "
            "condition RemovalHeld",
            held,
        )

    def _family(self, name: str, help_text: str, rows: Iterable[tuple[Key, str, float]]) -> GaugeMetricFamily:
        family = GaugeMetricFamily(name, help_text, labels=_LABELS)
        for (namespace, nodeset), cluster, value in rows:
            family.add_metric((namespace, nodeset, cluster), value)
        return family


_HEALTH_LABELS = (*_LABELS, "state", "signal")
_DRAINED_WITHIN_S = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class HealthMetrics(Collector):
    """Metrics of the health of Nodes, from the health record in the annotations of each Node that the watch shows."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._nodes: Counts[tuple[str, ...]] = Counts()
        self.steps = Counter(
            "sunkpy_health_steps",
            "How often a Node entered `state` of its health because of `signal`. `well`: the Node takes jobs again",
            ["state", "signal"],
            registry=registry,
        )
        self.failures = Counter(
            "sunkpy_health_failures",
            "How often the operator closed a Node for new jobs because of `signal`. A check that somebody asks "
            "for does not count",
            [*_LABELS, "signal"],
            registry=registry,
        )
        self.spent = Counter(
            "sunkpy_health_state_seconds",
            "Seconds that sick Nodes spent in `state` of their health. They are added when a Node leaves the state",
            [*_LABELS, "state"],
            registry=registry,
        )
        self.drained_after = Histogram(
            "sunkpy_health_drain_seconds",
            "Seconds from when a signal has lasted as long as its rule waits (`patienceSeconds`) until Slurm "
            "shows the Node's drain",
            buckets=_DRAINED_WITHIN_S,
            registry=registry,
        )
        registry.register(self)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Count the change of a Node's health that the watch shows. `old` is None for a new Node, `new` for a deleted
        one.
        """
        before, after = (read_record(node) if node is not None else None for node in (old, new))
        if old is not None and after is not None and (before is None or before.state is not after.state):
            signal = after.signal or (before.signal if before is not None else "")
            self.steps.labels(after.state, signal).inc()
            self._count_step(old, before, after)
        for node, by in ((old, -1), (new, 1)):
            key = _health_of(node) if node is not None else None
            if key is not None:
                self._nodes[key] += by
                if not self._nodes[key]:
                    del self._nodes[key]

    def _count_step(self, node: Node, before: Record | None, after: Record) -> None:
        where = _nodeset_of(node)
        was_away = before is not None and (before.is_closed or before.state is State.RETURNING)
        if after.is_closed and not was_away and after.signal != REQUESTED:
            self.failures.labels(*where, after.signal).inc()
        if before is not None and before.state is not State.WELL:
            spent_s = (time_of(after.at) - time_of(before.at)).total_seconds()
            self.spent.labels(*where, before.state).inc(max(spent_s, 0.0))

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield `sunkpy_health_nodes`, the number of sick Nodes by state. prometheus_client calls this at a scrape."""
        states = ", ".join(state for state in State if state is not State.WELL)
        text = f"Nodes with a signal of health.signals, by `state` of their health: {states}"
        family = GaugeMetricFamily("sunkpy_health_nodes", text, labels=_HEALTH_LABELS)
        for key, count in self._nodes.items():
            family.add_metric(key, float(count))
        yield family


def _health_of(node: Node) -> tuple[str, ...] | None:
    record = read_record(node)
    if record is None or record.state is State.WELL:
        return None
    return (*_nodeset_of(node), record.state, record.signal)


def _nodeset_of(node: Node) -> tuple[str, ...]:
    labels = (names.LABEL_NAMESPACE, names.LABEL_NODESET, names.LABEL_CLUSTER)
    return tuple(node.labels.get(label, "") for label in labels)

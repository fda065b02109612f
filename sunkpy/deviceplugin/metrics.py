"""Metrics of the device plugin of a node."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class PluginMetrics:
    """Metrics of the device plugin: what kubelets asked for, and which GPUs there are."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.allocations = Counter(
            "sunkpy_device_plugin_allocations",
            "Containers for which the kubelet asked the device plugin for GPUs, by `result`. `refused`: the pod failed",
            ["result"],
            registry=registry,
        )
        self.gpus = Gauge(
            "sunkpy_device_plugin_gpus", "GPUs that the device plugin found on its node", registry=registry
        )

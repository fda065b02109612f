"""Metrics of the process for personal login pods."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


class LoginsMetrics:
    """Metrics about login pods: what was done to them, and the answers to people."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.actions = Counter(
            "sunkpy_logins_actions",
            "Personal login pods started, stopped or recreated, by `action`",
            ["action"],
            registry=registry,
        )
        self.requests = Counter(
            "sunkpy_logins_requests",
            "Requests of people for their login pod, by `status`. 202: they wait for the pod. 404: they may have none",
            ["status"],
            registry=registry,
        )

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
            "Requests by people. `status` 202: somebody waits for a pod; 404: they have none",
            ["status"],
            registry=registry,
        )

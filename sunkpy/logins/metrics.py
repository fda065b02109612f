"""Metrics of the process for personal login pods."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


class LoginsMetrics:
    """The metrics of `sunkpy logins`: what it did to login pods, and its answers to people who asked for one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.actions = Counter(
            "sunkpy_logins_actions",
            "Personal login pods that the process has started, stopped or recreated, by `action`",
            ["action"],
            registry=registry,
        )
        self.requests = Counter(
            "sunkpy_logins_requests",
            "Requests by which people ask for their personal login pod (`my-login`), by HTTP `status`. 202: the "
            "person waits for the pod. 404: the person may have none",
            ["status"],
            registry=registry,
        )

"""What the process for login pods of one's own tells Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


class LoginsMetrics:
    """What was done to the pods, and what was answered to people."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.actions = Counter(
            "sunkpy_logins_actions",
            "Login pods of one's own started, stopped, made anew",
            ["action"],
            registry=registry,
        )
        self.requests = Counter(
            "sunkpy_logins_requests", "Requests of people by status of the answer", ["status"], registry=registry
        )

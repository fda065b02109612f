"""Metrics of the accounts process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class AccountsMetrics:
    """Changes in slurmdbd, what is left to a person, and when slurmdbd last agreed with the values."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.changes = Counter(
            "sunkpy_accounts_changes",
            "Changes made in slurmdbd, by `change`. Rising all the time: somebody else changes the same",
            ["change"],
            registry=registry,
        )
        self.left_alone = Gauge(
            "sunkpy_accounts_left_alone",
            "Accounts, QoS and users that values want and somebody else made. Above 0: see the log",
            registry=registry,
        )
        self.settled = Gauge(
            "sunkpy_accounts_settled_timestamp_seconds",
            "When slurmdbd last agreed with the values. Older than some minutes: the log has the reason",
            registry=registry,
        )

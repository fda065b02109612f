"""Metrics of the accounts process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class AccountsMetrics:
    """Changes in slurmdbd, what is left to a person, and when slurmdbd last agreed with the values."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.changes = Counter(
            "sunkpy_accounts_changes",
            "Changes that the process has made in slurmdbd, by `change`. If it rises all the time, somebody "
            "else changes the same objects",
            ["change"],
            registry=registry,
        )
        self.left_alone = Gauge(
            "sunkpy_accounts_left_alone",
            "Accounts, QoS and users that the values want, but that somebody else has made. If it is above "
            "0, see the log",
            registry=registry,
        )
        self.settled = Gauge(
            "sunkpy_accounts_settled_timestamp_seconds",
            "When slurmdbd last agreed with the values. If that is more than some minutes ago, the log has the reason",
            registry=registry,
        )

"""Metrics of the accounts process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class AccountsMetrics:
    """The metrics of the accounts process: its changes in slurmdbd, what it leaves to a person, and when slurmdbd last
    agreed with the values.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.changes = Counter(
            "sunkpy_accounts_changes",
            "Changes of accounts, QoS and users that the process has made in slurmdbd, by `change`. If it rises "
            "all the time, somebody else changes the same objects",
            ["change"],
            registry=registry,
        )
        self.left_alone = Gauge(
            "sunkpy_accounts_left_alone",
            "Accounts, QoS and users of the values that the process does not change, because somebody else has "
            "made them in slurmdbd. If it is above 0, see the log",
            registry=registry,
        )
        self.settled = Gauge(
            "sunkpy_accounts_settled_timestamp_seconds",
            "When slurmdbd last had all accounts, QoS and users as the values describe them. If that is more than "
            "some minutes ago, the log has the reason",
            registry=registry,
        )

"""What the accounts process tells Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class AccountsMetrics:
    """What was changed in slurmdbd, what is left for a person, and when all was as wanted last."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.changes = Counter("sunkpy_accounts_changes", "Changes made in slurmdbd", ["change"], registry=registry)
        self.left_alone = Gauge(
            "sunkpy_accounts_left_alone", "What values want and somebody else made", registry=registry
        )
        self.settled = Gauge(
            "sunkpy_accounts_settled_timestamp_seconds", "When slurmdbd last said what values say", registry=registry
        )

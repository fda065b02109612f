"""The settings file of the operator, as chart `sunkpy` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Annotated, Literal

import msgspec

from sunkpy.core.health import HealthRules, Remedy, Rule
from sunkpy.core.health.known import KNOWN
from sunkpy.core.health.requests import DrainRequests
from sunkpy.core.nodeset.node_mark import DrainPolicy
from sunkpy.runtime.settings import ProcessSettings, Settings


class SlurmDrainSettings(Settings, frozen=True, kw_only=True):
    """What happens to Nodes when Slurm's side drains them, and to how many of the pool at once: a percentage, at least
    three.
    """

    policy: DrainPolicy = DrainPolicy.CORDON
    max_percent: Annotated[int, msgspec.Meta(ge=0, le=100)] = 20


SignalSource = Literal["nodeProblemDetector", "eks", "aks", "nvsentinel", "hyperpod", "slurm"]


class HealthSettings(Settings, frozen=True, kw_only=True):
    """Which signals say that a node is sick, and how it comes back (`sunkpy.core.health`). Without signals nothing
    happens.

    `sources`: whose signals count as `core.health.known` has them, but for those `without`. `signals`: more of them, or
    in place of one of that name; they name `remedies`. `drain_requests`: those of another program, to be answered.
    `max_percent` of a pool, at least three Nodes, are closed at once because of signals, and as many are remedied.
    """

    sources: tuple[SignalSource, ...] = ()
    without: tuple[str, ...] = ()
    signals: Mapping[str, Rule] = {}
    remedies: Mapping[str, Remedy] = {}
    drain_requests: DrainRequests = DrainRequests()
    max_percent: Annotated[int, msgspec.Meta(ge=0, le=100)] = 20
    settle_seconds: Annotated[int, msgspec.Meta(ge=0)] = 60
    person_after_seconds: Annotated[int, msgspec.Meta(ge=0)] = 3600
    most_returns_a_day: Annotated[int, msgspec.Meta(ge=1)] = 3

    def __post_init__(self) -> None:
        for name, rule in self.signals.items():
            if rule.remedy and rule.remedy not in self.remedies:
                raise ValueError(f"health.signals.{name}: there is no remedy {rule.remedy} in health.remedies")

    @property
    def rules(self) -> HealthRules:
        """All rules. Those that the values give by name come first."""
        known = {name: rule for source in self.sources for name, rule in KNOWN[source].items()}
        if self.drain_requests.api_version:
            known["DrainRequest"] = Rule(is_drain_request=True)
        left = {name: rule for name, rule in known.items() if name not in {*self.signals, *self.without}}
        return HealthRules(
            signals={**self.signals, **left},
            remedies=self.remedies,
            settle_s=self.settle_seconds,
            person_after_s=self.person_after_seconds,
            most_returns=self.most_returns_a_day,
        )

    @property
    def conditions(self) -> Set[str]:
        """The types of conditions of Nodes that rules read."""
        return frozenset(rule.condition for rule in self.rules.signals.values() if rule.condition)

    @property
    def annotations(self) -> Set[str]:
        """The annotations of Nodes that remedies read."""
        return frozenset(key for remedy in self.remedies.values() for key in remedy.read_annotations)


class LockSettings(Settings, frozen=True, kw_only=True):
    """`key` of the taint on Nodes while Slurm jobs run there; empty: none."""

    key: str = ""
    dry_run: bool = False


class OperatorSettings(ProcessSettings, frozen=True, kw_only=True):
    """How the operator runs. One operator serves all NodeSets of the cluster.

    `resync_seconds` is how often every NodeSet and Node is looked at although nothing has changed; among more than
    2,000 Nodes it is 0.03 s for each.
    """

    resync_seconds: int = 60
    workers: int = 4
    slurm_drains: SlurmDrainSettings = SlurmDrainSettings()
    health: HealthSettings = HealthSettings()
    lock: LockSettings = LockSettings()

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
    """What happens to Nodes whose Slurm node somebody drains in Slurm, and to how many of them at most: `max_percent`
    of the pool, or three if that is more.
    """

    policy: DrainPolicy = DrainPolicy.CORDON
    max_percent: Annotated[int, msgspec.Meta(ge=0, le=100)] = 20


SignalSource = Literal["nodeProblemDetector", "eks", "aks", "nvsentinel", "hyperpod", "slurm"]


class HealthSettings(Settings, frozen=True, kw_only=True):
    """Which signals say that a node is sick, and how a sick node is repaired and opened (`sunkpy.core.health`). Without
    signals, only checks of the machines close nodes.

    `sources`: the programs whose signals count, as `core.health.known` lists them, except the signals in `without`.
    `signals`: rules of further signals, or of known ones under the same name; each may name one of the `remedies`.
    `drain_requests`: objects by which another program asks for drains. At most `max_percent` of a pool, or three Nodes
    if that is more, are closed at once because of signals. The same limit holds for Nodes that are repaired at once.
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
        """The rules of all signals. Those that the values give by name come first, and replace known rules of that
        name.
        """
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
        """The types of Node conditions that the rules of signals read."""
        return frozenset(rule.condition for rule in self.rules.signals.values() if rule.condition)

    @property
    def annotations(self) -> Set[str]:
        """The keys of Node annotations that the remedies read."""
        return frozenset(key for remedy in self.remedies.values() for key in remedy.read_annotations)


class LockSettings(Settings, frozen=True, kw_only=True):
    """How Nodes are locked by a taint while Slurm jobs run there. `key`: of the taint; empty: no lock. `dry_run`: only
    note on the Node what the lock would do.
    """

    key: str = ""
    dry_run: bool = False


class OperatorSettings(ProcessSettings, frozen=True, kw_only=True):
    """The settings of `sunkpy operator`. One operator serves all NodeSets of the cluster.

    `resync_seconds`: the pause until every NodeSet and Node is looked at again although nothing has changed. It is
    longer with many Nodes: at least 0.03 s for each Node.
    """

    resync_seconds: int = 60
    workers: int = 4
    slurm_drains: SlurmDrainSettings = SlurmDrainSettings()
    health: HealthSettings = HealthSettings()
    lock: LockSettings = LockSettings()

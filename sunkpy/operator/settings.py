"""The settings file of the operator, as chart `sunkpy` writes it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from sunkpy.core.nodeset.node_mark import DrainPolicy
from sunkpy.runtime.settings import ProcessSettings, Settings


class SlurmDrainSettings(Settings, frozen=True, kw_only=True):
    """What drains from Slurm's side do to Nodes, and to how many at once: a percentage of the pool, at least three."""

    policy: DrainPolicy = DrainPolicy.CORDON
    max_percent: Annotated[int, msgspec.Meta(ge=0, le=100)] = 20


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
    lock: LockSettings = LockSettings()

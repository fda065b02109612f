"""Refuses a slurmrestd that answers for another Slurm cluster than the settings name."""

from __future__ import annotations

from sunkpy.runtime.settings import BadSettings
from sunkpy.slurm.client import Slurm
from sunkpy.slurm.errors import SlurmError


class WrongCluster(BadSettings):
    """slurmrestd answers for another Slurm cluster than the one in the settings."""


async def check_cluster(slurm: Slurm, wanted: str) -> None:
    """Refuse a cluster of another name. An unreachable cluster is no mismatch.

    Raises:
        WrongCluster: it has another name, and writing there would be wrong.
    """
    try:
        ping = await slurm.ping()
    except SlurmError:
        return
    if ping.cluster and ping.cluster != wanted:
        raise WrongCluster(
            f"slurmrestd serves Slurm cluster {ping.cluster!r}, the settings say {wanted!r}: "
            "set `cluster` to Slurm's ClusterName, or `slurm.url` to the right slurmrestd"
        )

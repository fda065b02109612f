"""Checks that slurmrestd belongs to the Slurm cluster that the settings name."""

from __future__ import annotations

from sunkpy.runtime.settings import BadSettings
from sunkpy.slurm.client import Slurm
from sunkpy.slurm.errors import SlurmError


class WrongCluster(BadSettings):
    """slurmrestd belongs to another Slurm cluster than the settings name."""


async def check_cluster(slurm: Slurm, wanted: str) -> None:
    """Check that slurmrestd belongs to the Slurm cluster with the name `wanted`. If slurmrestd does not answer, or does
    not give a name, the check passes.

    Raises:
        WrongCluster: the cluster has another name.
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

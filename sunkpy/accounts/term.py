"""One term of leadership: refuses the wrong Slurm, and keeps the accounts until it is cancelled."""

from __future__ import annotations

from sunkpy.accounts.loop import AccountsLoop
from sunkpy.accounts.settings import AccountsSettings
from sunkpy.runtime.settings import BadSettings
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import SlurmError


class WrongCluster(BadSettings):
    """slurmrestd answers for another Slurm cluster than the one in the settings."""


async def serve_term(slurm: Slurm, loop: AccountsLoop, settings: AccountsSettings) -> None:
    """Keep the accounts until cancelled.

    Raises:
        WrongCluster: writing there would be wrong.
    """
    await check_cluster(slurm, settings.cluster)
    await loop.run()


async def check_cluster(slurm: Slurm, wanted: str) -> None:
    """Refuse a cluster of another name. An unreachable cluster is no mismatch.

    Raises:
        WrongCluster: it has another name.
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

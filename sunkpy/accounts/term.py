"""One term of leadership of `sunkpy accounts`: refuses the wrong Slurm cluster, then keeps the accounts in line with
the settings.
"""

from __future__ import annotations

from sunkpy.accounts.loop import AccountsLoop
from sunkpy.accounts.settings import AccountsSettings
from sunkpy.slurm import Slurm
from sunkpy.slurm.cluster import check_cluster


async def serve_term(slurm: Slurm, loop: AccountsLoop, settings: AccountsSettings) -> None:
    """Keep the accounts in slurmdbd in line with the settings until cancelled.

    Raises:
        WrongCluster: slurmrestd belongs to another Slurm cluster than the settings name.
    """
    await check_cluster(slurm, settings.cluster)
    await loop.run()

"""One term of leadership: refuses the wrong Slurm, and keeps the accounts until it is cancelled."""

from __future__ import annotations

from sunkpy.accounts.loop import AccountsLoop
from sunkpy.accounts.settings import AccountsSettings
from sunkpy.slurm import Slurm
from sunkpy.slurm.cluster import check_cluster


async def serve_term(slurm: Slurm, loop: AccountsLoop, settings: AccountsSettings) -> None:
    """Keep the accounts until cancelled.

    Raises:
        WrongCluster: writing there would be wrong.
    """
    await check_cluster(slurm, settings.cluster)
    await loop.run()

"""Compares what slurmdbd has with what the values want, and plans the changes."""

from __future__ import annotations

import msgspec

from sunkpy.core.accounts import AccountsPlan, WantedAccounts, plan_accounts
from sunkpy.slurm import Slurm


async def plan_now(slurm: Slurm, wanted: WantedAccounts, *, cluster: str, is_guest: bool = False) -> AccountsPlan:
    """Read slurmdbd, and return what has to be changed there so that it has what `wanted` says.

    Raises:
        SlurmError: slurmdbd could not be read.
    """
    now = await slurm.accounting(cluster)
    return plan_accounts(wanted, msgspec.structs.replace(now, is_guest=is_guest))

"""What slurmdbd has and what values want → one plan."""

from __future__ import annotations

from sunkpy.core.accounts import Plan, Wanted, plan_accounts
from sunkpy.slurm import Slurm


async def plan_now(slurm: Slurm, wanted: Wanted, *, cluster: str) -> Plan:
    """What has to be changed in slurmdbd as it is at this moment.

    Raises:
        SlurmError: slurmdbd could not be read.
    """
    return plan_accounts(wanted, await slurm.accounting(cluster))

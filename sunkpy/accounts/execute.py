"""Changes → writes to slurmdbd. Each may be repeated; what came of it is seen when slurmdbd is read again."""

from __future__ import annotations

from sunkpy.core.accounts import Change
from sunkpy.core.accounts.changes import (
    ChangeAssociation,
    ChangeQos,
    DescribeAccount,
    MakeAccount,
    MakeMembership,
    MakeQos,
    SetDefaultAccount,
)
from sunkpy.slurm import Slurm


async def execute(slurm: Slurm, change: Change, *, cluster: str) -> None:
    """Carry one change out.

    Raises:
        SlurmError: slurmdbd is away, or refuses it.
    """
    match change:
        case MakeQos():
            await slurm.put_qos(change.name, change.after)
        case ChangeQos():
            await slurm.put_qos(change.name, change.after, change.before)
        case MakeAccount():
            await slurm.make_account(change.after, change.association, cluster=cluster)
        case DescribeAccount():
            await slurm.describe_account(change.name, change.after)
        case MakeMembership():
            await slurm.make_membership(change.association, cluster=cluster)
        case ChangeAssociation():
            await slurm.change_association(change.after, change.before, cluster=cluster)
        case SetDefaultAccount():
            await slurm.set_default_account(change.user, change.after)

"""Carries out changes of accounts in slurmdbd. Each change may be repeated. Only a new reading of slurmdbd shows
whether it took effect.
"""

from __future__ import annotations

from collections.abc import Sequence

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


async def execute(slurm: Slurm, batch: Sequence[Change], *, cluster: str) -> None:
    """Carry out one batch of changes (from `in_batches`) with one request.

    Raises:
        SlurmError: slurmdbd is away, or refuses the changes; it may have carried out some of them.
    """
    members = [change.association for change in batch if isinstance(change, MakeMembership)]
    places = [(change.after, change.before) for change in batch if isinstance(change, ChangeAssociation)]
    match batch[0]:
        case MakeQos() as change:
            await slurm.put_qos(change.name, change.after)
        case ChangeQos() as change:
            await slurm.put_qos(change.name, change.after, change.before)
        case MakeAccount() as change:
            await slurm.make_account(change.after, change.association, cluster=cluster)
        case DescribeAccount() as change:
            await slurm.describe_account(change.name, change.after)
        case MakeMembership():
            is_default = any(change.is_default for change in batch if isinstance(change, MakeMembership))
            await slurm.make_memberships(members, cluster=cluster, is_default=is_default)
        case ChangeAssociation():
            await slurm.change_associations(places, cluster=cluster)
        case SetDefaultAccount() as change:
            await slurm.set_default_account(change.association, cluster=cluster)

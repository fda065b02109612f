"""The changes of slurmdbd that a plan may contain. None of them deletes anything: see `sunkpy.core.accounts.plan`."""

from __future__ import annotations

import msgspec

from sunkpy.core.accounts.records import AccountRecord, AssociationRecord, QosRecord


class MakeQos(msgspec.Struct, frozen=True, kw_only=True):
    """Make a QoS that slurmdbd does not have."""

    name: str
    after: QosRecord


class ChangeQos(msgspec.Struct, frozen=True, kw_only=True):
    """Change a QoS that sunkpy made and that differs from the values. `closes`: the values no longer have the QoS, so
    the change makes it take no more jobs.
    """

    name: str
    after: QosRecord
    before: QosRecord
    closes: bool = False


class MakeAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Make an account that is not in the tree of this cluster, and its association."""

    after: AccountRecord
    association: AssociationRecord


class DescribeAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Change the description or organization of an account that sunkpy made."""

    name: str
    after: AccountRecord
    before: AccountRecord


class MakeMembership(msgspec.Struct, frozen=True, kw_only=True):
    """Put a user into an account. A user whom slurmdbd does not have is made, with this account as the default.

    `is_default`: for an existing user, make this account their default in this cluster.
    """

    association: AssociationRecord
    is_default: bool = False


class ChangeAssociation(msgspec.Struct, frozen=True, kw_only=True):
    """Change the parent, shares, QoS or limits of an account, or of a user in an account.

    `closes`: the values no longer have the account or user, so the change makes Slurm accept no more jobs there.
    """

    after: AssociationRecord
    before: AssociationRecord
    closes: bool = False


class SetDefaultAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Make this account the default of a user who is in it already. `before`: the old default; may be empty."""

    association: AssociationRecord
    before: str


Change = MakeQos | ChangeQos | MakeAccount | DescribeAccount | MakeMembership | ChangeAssociation | SetDefaultAccount

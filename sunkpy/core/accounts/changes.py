"""What to change in slurmdbd, as values. None of them deletes anything: see `sunkpy.core.accounts.plan`."""

from __future__ import annotations

import msgspec

from sunkpy.core.accounts.records import AccountRecord, AssociationRecord, QosRecord


class MakeQos(msgspec.Struct, frozen=True, kw_only=True):
    """A QoS that does not exist yet."""

    name: str
    after: QosRecord


class ChangeQos(msgspec.Struct, frozen=True, kw_only=True):
    """Changes a QoS of ours that differs from the values. `closes`: the values no longer have it."""

    name: str
    after: QosRecord
    before: QosRecord
    closes: bool = False


class MakeAccount(msgspec.Struct, frozen=True, kw_only=True):
    """An account that is not in the tree."""

    after: AccountRecord
    association: AssociationRecord


class DescribeAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Description or organization of an account of ours."""

    name: str
    after: AccountRecord
    before: AccountRecord


class MakeMembership(msgspec.Struct, frozen=True, kw_only=True):
    """Puts a user into an account. If the user does not exist, they are made, and the first account is their default.

    `is_default`: of a user who is there already, and who gets this one as the default in this cluster.
    """

    association: AssociationRecord
    is_default: bool = False


class ChangeAssociation(msgspec.Struct, frozen=True, kw_only=True):
    """Place, shares, QoS or limits of an account or of a user in it. `closes` as of a QoS."""

    after: AssociationRecord
    before: AssociationRecord
    closes: bool = False


class SetDefaultAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Sets the account of a user's jobs that name none. The user is in this account. `before`: the account until now;
    empty if there was none.
    """

    association: AssociationRecord
    before: str


Change = MakeQos | ChangeQos | MakeAccount | DescribeAccount | MakeMembership | ChangeAssociation | SetDefaultAccount

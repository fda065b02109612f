"""Slurm's accounts, QoS and associations as slurmdbd keeps them: the fields that the chart's values may set.

The tree of accounts is made of associations: one for each account, with its parent, and one for each user in an
account. Limits and shares are fields of associations and of QoS (https://slurm.schedmd.com/resource_limits.html).

Units: TRES by Slurm's name for it (`cpu`, `mem` in MiB, `node`, `billing`, `gres/gpu`); times in minutes; None means
no limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from sunkpy.core import names

Count = Annotated[int, msgspec.Meta(ge=0)]
Tres = Mapping[str, Count]

ROOT: Final = "root"
"""The name of the account at the top of the tree, and of the user in it. Slurm makes both itself."""

CLOSED: Final = "sunkpy-closed"
"""The QoS of closed associations. `sunkpy accounts` makes it when it closes the first association."""

SHARES_OF_PARENT: Final = 2**31 - 1
"""The number of shares by which a user takes part in the account's own shares: Slurm's FAIRSHARE_PARENT."""


class Ceiling(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Limits at any one moment: running jobs, queued and running jobs (`submitted`), TRES of running jobs."""

    jobs: Count | None = None
    submitted: Count | None = None
    tres: Tres = {}


class Limits(Ceiling, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Limits of an association or QoS. `tres_minutes`: TRES times minutes of all its jobs, also past ones; past usage
    counts less with time, as Slurm's PriorityDecayHalfLife says. `job_tres`, `job_minutes`: limits of each job.
    """

    tres_minutes: Tres = {}
    job_tres: Tres = {}
    job_minutes: Count | None = None


class QosRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A QoS in slurmdbd. `preempt_mode`: empty if the cluster's mode applies. `flags`: as in sacctmgr(1)."""

    description: str = ""
    priority: int = 0
    preempts: tuple[str, ...] = ()
    preempt_mode: str = ""
    flags: tuple[str, ...] = ()
    limits: Limits = Limits()
    per_user: Ceiling = Ceiling()
    per_account: Ceiling = Ceiling()

    @property
    def is_ours(self) -> bool:
        """True if the QoS's description begins with sunkpy's mark (`mark`). sunkpy may change such a QoS, unless the
        slurmdbd belongs to another Helm release (`Accounting.is_guest`).
        """
        return is_made_by_values(self.description)


class AccountRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An account in slurmdbd, without its place in the tree of accounts, which is an `AssociationRecord`."""

    description: str = ""
    organization: str = ""

    @property
    def is_ours(self) -> bool:
        """True if the description says that `sunkpy accounts` made this account from the chart's values. sunkpy may
        change such an account, unless the slurmdbd belongs to another Helm release (`Accounting.is_guest`).
        """
        return is_made_by_values(self.description)


class AssociationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An association in slurmdbd: an account in the tree (no `user`), or a user in an account (no `parent`).

    It has only the settings that were made for it, not those that it inherits.
    """

    account: str
    user: str = ""
    parent: str = ""
    shares: int = 1
    qos: tuple[str, ...] = ()
    default_qos: str = ""
    comment: str = ""
    limits: Limits = Limits()

    @property
    def key(self) -> tuple[str, str]:
        """The account and the user, as the key in `Accounting.associations`. The user is empty for the association of
        an account.
        """
        return self.account, self.user

    @property
    def is_ours(self) -> bool:
        """True if the association's comment says that sunkpy made it from the chart's values. For the association of an
        account, ask `Accounting.is_ours` instead.
        """
        return is_made_by_values(self.comment)


class Accounting(msgspec.Struct, frozen=True, kw_only=True):
    """All that slurmdbd has about one Slurm cluster. `tres`: the resources that Slurm counts.

    `default_accounts`: each user's default account in this cluster; empty if the user has none. `is_guest`: another
    Helm release runs the slurmdbd. Then sunkpy changes only this cluster's associations, not QoS and account records,
    which slurmdbd has once for all clusters.
    """

    cluster: str = ""
    qos: Mapping[str, QosRecord] = {}
    accounts: Mapping[str, AccountRecord] = {}
    associations: Mapping[tuple[str, str], AssociationRecord] = {}
    default_accounts: Mapping[str, str] = {}
    tres: frozenset[str] = frozenset()
    is_guest: bool = False

    def is_ours(self, association: AssociationRecord) -> bool:
        """True if `sunkpy accounts` made this association from the chart's values, so that sunkpy may change it."""
        if association.user or self.is_guest:
            return association.is_ours
        account = self.accounts.get(association.account)
        return account is not None and account.is_ours

    def is_of_others(self, account: str) -> bool:
        """True if somebody other than sunkpy made this account. If another Helm release runs the slurmdbd (`is_guest`):
        True if somebody else put the account into this cluster.
        """
        if self.is_guest:
            place = self.associations.get((account, ""))
            return place is not None and not place.is_ours
        record = self.accounts.get(account)
        return record is not None and not record.is_ours


def is_made_by_values(text: str) -> bool:
    """True if this description or comment of an object in slurmdbd says that `sunkpy accounts` made it from the chart's
    values.
    """
    return text.startswith(names.REASON_PREFIX)


def mark(text: str) -> str:
    """Return the description or comment that marks an object in slurmdbd as made from the chart's values: one line that
    begins with `k8s: `.
    """
    return names.REASON_PREFIX + " ".join(text.split())


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job in slurmdbd: its state, and the nodes that it ran on."""

    state: frozenset[str]
    nodes: tuple[str, ...] = ()

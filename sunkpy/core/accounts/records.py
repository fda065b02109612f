"""What slurmdbd keeps of accounts, QoS and associations, as far as values may say it.

The tree of accounts is made of associations: one for each account, with its parent, and one for each user in an
account. Limits and shares stand on associations and on QoS (https://slurm.schedmd.com/resource_limits.html).

Units: TRES by Slurm's name of it (`cpu`, `mem` in MiB, `node`, `billing`, `gres/gpu`); times in minutes; None is no
limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from sunkpy.core import names

Count = Annotated[int, msgspec.Meta(ge=0)]
Tres = Mapping[str, Count]

ROOT: Final = "root"
"""The account at the top of the tree, and the user who is always there. Both are Slurm's own."""

CLOSED: Final = "sunkpy-closed"
"""The QoS of associations that are closed. Made when something is closed for the first time."""

SHARES_OF_PARENT: Final = 2**31 - 1
"""Shares that say "those of the account": Slurm's FAIRSHARE_PARENT."""


class Ceiling(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Limits at one time: jobs running, jobs queued or running, TRES of the running ones."""

    jobs: Count | None = None
    submitted: Count | None = None
    tres: Tres = {}


class Limits(Ceiling, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Limits of all jobs below together (`tres_minutes`: over all time), and of each job (`job_tres`,
    `job_minutes`).
    """

    tres_minutes: Tres = {}
    job_tres: Tres = {}
    job_minutes: Count | None = None


class QosRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A QoS. `preempt_mode` is empty if the mode is that of the cluster. `flags` are those of sacctmgr(1)."""

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
        """True if values made this QoS: the process changes it with them."""
        return is_made_by_values(self.description)


class AccountRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of an account, without its place in the tree."""

    description: str = ""
    organization: str = ""

    @property
    def is_ours(self) -> bool:
        """True if values made this account: the process changes it with them, and its association, too."""
        return is_made_by_values(self.description)


class AssociationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An account in the tree (no `user`), or a user in an account (no `parent`), without what it inherits."""

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
        """Account and user."""
        return self.account, self.user

    @property
    def is_ours(self) -> bool:
        """True if values made this association of a user. For that of an account: `Accounting.is_ours`."""
        return is_made_by_values(self.comment)


class Accounting(msgspec.Struct, frozen=True, kw_only=True):
    """All that slurmdbd has about one Slurm cluster. `tres`: the resources that Slurm counts.

    `default_accounts` are those of this cluster, by user; empty for one who has none here. `is_guest`: the slurmdbd is
    another release's. Then what it has once for all clusters is not ours: QoS, and what an account is.
    """

    cluster: str = ""
    qos: Mapping[str, QosRecord] = {}
    accounts: Mapping[str, AccountRecord] = {}
    associations: Mapping[tuple[str, str], AssociationRecord] = {}
    default_accounts: Mapping[str, str] = {}
    tres: frozenset[str] = frozenset()
    is_guest: bool = False

    def is_ours(self, association: AssociationRecord) -> bool:
        """True if values made this association."""
        if association.user or self.is_guest:
            return association.is_ours
        account = self.accounts.get(association.account)
        return account is not None and account.is_ours

    def is_of_others(self, account: str) -> bool:
        """True if somebody else made this account; for a guest: if somebody else put the account into this cluster."""
        if self.is_guest:
            place = self.associations.get((account, ""))
            return place is not None and not place.is_ours
        record = self.accounts.get(account)
        return record is not None and not record.is_ours


def is_made_by_values(text: str) -> bool:
    """Does this description or comment say that values made its object?"""
    return text.startswith(names.REASON_PREFIX)


def mark(text: str) -> str:
    """The description or comment of an object that values make: one line, as Slurm returns it."""
    return names.REASON_PREFIX + " ".join(text.split())


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job as slurmdbd describes it."""

    state: frozenset[str]
    nodes: tuple[str, ...] = ()

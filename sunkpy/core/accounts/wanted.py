"""Accounts, QoS and users as an admin writes them in the chart's values. Unknown keys are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from sunkpy.core.accounts.records import ROOT, SHARES_OF_PARENT, Ceiling, Count, Limits

Shares = Count | Literal["parent"]

PreemptMode = Literal["", "CANCEL", "REQUEUE"]
"""How jobs of a QoS are preempted; empty: as slurm.conf says. Slurm's other modes are not allowed, because they leave
the processes of the preempted job on the node.
"""

QosFlag = Literal[
    "DenyOnLimit", "EnforceUsageThreshold", "NoDecay", "NoReserve", "OverPartQOS", "PartitionMaxNodes",
    "PartitionMinNodes", "PartitionTimeLimit", "RequiresReservation", "UsageFactorSafe",
]  # fmt: skip


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A map in the chart's values with camelCase keys. A key that is not a field is an error."""


class WantedQos(_Section, frozen=True, kw_only=True):
    """A QoS in the chart's values. `preempts`: the QoS whose jobs may be preempted by jobs of this QoS."""

    description: str = ""
    priority: Count = 0
    preempts: tuple[str, ...] = ()
    preempt_mode: PreemptMode = ""
    flags: tuple[QosFlag, ...] = ()
    limits: Limits = Limits()
    per_user: Ceiling = Ceiling()
    per_account: Ceiling = Ceiling()


class WantedAccount(_Section, frozen=True, kw_only=True):
    """An account in the chart's values. Without `qos` the account inherits the QoS of its parent.

    Without `organization` it has the one of the nearest account above that has one, or else its own name.
    """

    description: str = ""
    organization: str = ""
    parent: str = ROOT
    shares: Shares = 1
    qos: tuple[str, ...] | None = None
    default_qos: str = ""
    limits: Limits = Limits()


class Membership(_Section, frozen=True, kw_only=True):
    """The settings of a user in one account. Without `qos` the user inherits the QoS of the account."""

    shares: Shares = 1
    qos: tuple[str, ...] | None = None
    default_qos: str = ""
    limits: Limits = Limits()


class WantedUser(_Section, frozen=True, kw_only=True):
    """A user in the chart's values. `accounts`: account → the user's settings there. `default_account` may be left out
    if the user is in only one account.
    """

    accounts: Mapping[str, Membership] = {}
    default_account: str = ""


class PodUser(_Section, frozen=True, kw_only=True):
    """The Slurm user who submits the jobs of pods: a member of every account, with the account's own shares.

    `account`: the account for jobs of pods that name no account. The chart refuses values that have accounts and leave
    it out.
    """

    user: str = "k8s"
    account: Annotated[str, msgspec.Meta(min_length=1)] = ""


class WantedAccounts(_Section, frozen=True, kw_only=True):
    """All that the chart's values say about accounts. `organizations`: the organizations that accounts may name.

    `submitted_per_user`: the most queued and running jobs of a user in an account, unless the user's own limits there
    say otherwise. It does not apply to the user who submits the jobs of pods (`pods`).
    """

    organizations: tuple[str, ...] = ()
    accounts: Mapping[str, WantedAccount] = {}
    qos: Mapping[str, WantedQos] = {}
    submitted_per_user: Count | None = None
    users: Mapping[str, WantedUser] = {}
    pods: PodUser = PodUser()

    @property
    def has_pod_user(self) -> bool:
        """True if the values have accounts, and so a user in them who submits the jobs of pods."""
        return bool(self.accounts and self.pods.account)

    @property
    def members(self) -> Mapping[str, WantedUser]:
        """All users, including the one who submits the jobs of pods."""
        if not self.has_pod_user:
            return self.users
        everywhere = {account: Membership(shares="parent") for account in self.accounts}
        pod_user = WantedUser(accounts=everywhere, default_account=self.pods.account)
        return {**self.users, self.pods.user: pod_user}


def limits_of(wanted: WantedAccounts, user: str, membership: Membership) -> Limits:
    """Return the limits of a user in an account. If the values set no limit on submitted jobs there, this limit is
    `submitted_per_user`. The user who submits the jobs of pods gets no such limit.
    """
    if membership.limits.submitted is not None or user not in wanted.users:
        return membership.limits
    return msgspec.structs.replace(membership.limits, submitted=wanted.submitted_per_user)


def count_shares(shares: Shares) -> int:
    """Return fair-share shares as Slurm's number: `parent` becomes FAIRSHARE_PARENT."""
    return SHARES_OF_PARENT if shares == "parent" else shares


def default_account(user: WantedUser) -> str:
    """Return the user's default account: the one that the values name, or the user's only account. Empty if the values
    name no default account, and the user is in several accounts or in none.
    """
    return user.default_account or (next(iter(user.accounts)) if len(user.accounts) == 1 else "")

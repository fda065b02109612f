"""Accounts, QoS and users as an administrator writes them in values: decoded as written; unknown keys are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from sunkpy.core.accounts.records import ROOT, SHARES_OF_PARENT, Ceiling, Count, Limits

Shares = Count | Literal["parent"]

PreemptMode = Literal["", "CANCEL", "REQUEUE"]
"""How jobs of a QoS give way to others; empty: as slurm.conf says. Slurm's other modes are not offered, because they
start the next job beside the stopped one.
"""

QosFlag = Literal[
    "DenyOnLimit", "EnforceUsageThreshold", "NoDecay", "NoReserve", "OverPartQOS", "PartitionMaxNodes",
    "PartitionMinNodes", "PartitionTimeLimit", "RequiresReservation", "UsageFactorSafe",
]  # fmt: skip


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A map in the values: camelCase keys, unknown ones refused."""


class WantedQos(_Section, frozen=True, kw_only=True):
    """A QoS. `preempts` names the QoS whose jobs give way to its own."""

    description: str = ""
    priority: Count = 0
    preempts: tuple[str, ...] = ()
    preempt_mode: PreemptMode = ""
    flags: tuple[QosFlag, ...] = ()
    limits: Limits = Limits()
    per_user: Ceiling = Ceiling()
    per_account: Ceiling = Ceiling()


class WantedAccount(_Section, frozen=True, kw_only=True):
    """An account. Without `qos` it has those of its parent, without `organization` its parent's, or its own name."""

    description: str = ""
    organization: str = ""
    parent: str = ROOT
    shares: Shares = 1
    qos: tuple[str, ...] | None = None
    default_qos: str = ""
    limits: Limits = Limits()


class Membership(_Section, frozen=True, kw_only=True):
    """A user in an account. Without `qos` those of the account."""

    shares: Shares = 1
    qos: tuple[str, ...] | None = None
    default_qos: str = ""
    limits: Limits = Limits()


class WantedUser(_Section, frozen=True, kw_only=True):
    """A user, by account. `default_account` may be left out where there is one account only."""

    accounts: Mapping[str, Membership] = {}
    default_account: str = ""


class PodUser(_Section, frozen=True, kw_only=True):
    """The Slurm user who submits the jobs of pods. They are a member of every account, with the account's own shares.

    `account` is for the jobs of pods that name none.
    """

    user: str = "k8s"
    account: str = ""


class WantedAccounts(_Section, frozen=True, kw_only=True):
    """All that the values say about accounts. `organizations`: the organizations that accounts may name.

    `submitted_per_user`: most jobs of a user in an account that are queued or running, where their own limits say
    nothing of it. What bounds a person does not bound the jobs of all pods.
    """

    organizations: tuple[str, ...] = ()
    accounts: Mapping[str, WantedAccount] = {}
    qos: Mapping[str, WantedQos] = {}
    submitted_per_user: Count | None = None
    users: Mapping[str, WantedUser] = {}
    pods: PodUser = PodUser()

    @property
    def members(self) -> Mapping[str, WantedUser]:
        """All users, including the one who submits the jobs of pods."""
        if not self.pods.account:
            return self.users
        everywhere = {account: Membership(shares="parent") for account in self.accounts}
        pod_user = WantedUser(accounts=everywhere, default_account=self.pods.account)
        return {**self.users, self.pods.user: pod_user}


def limits_of(wanted: WantedAccounts, user: str, membership: Membership) -> Limits:
    """The limits of a user in an account."""
    if membership.limits.submitted is not None or user not in wanted.users:
        return membership.limits
    return msgspec.structs.replace(membership.limits, submitted=wanted.submitted_per_user)


def count_shares(shares: Shares) -> int:
    """Shares as Slurm counts them."""
    return SHARES_OF_PARENT if shares == "parent" else shares


def default_account(user: WantedUser) -> str:
    """The account of jobs that name none; empty when it is not given."""
    return user.default_account or (next(iter(user.accounts)) if len(user.accounts) == 1 else "")

"""The tree of accounts after the plan: what the values describe, and what others made next to it and above it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from sunkpy.core.accounts.records import ROOT, Accounting
from sunkpy.core.accounts.wanted import Membership, WantedAccounts

QOS_OF_ROOT = ("normal",)
"""The QoS of an account when no account above it names any."""


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """`parents` by account, of the values and of others, without accounts that are being closed."""

    wanted: WantedAccounts
    now: Accounting
    parents: Mapping[str, str]

    def above(self, account: str) -> Iterator[str]:
        """The account and those above it up to the root, each once, even in a circle."""
        seen: set[str] = set()
        while account and account not in seen:
            yield account
            seen.add(account)
            account = self.parents.get(account, "")

    def depth(self, account: str) -> int:
        """How many accounts are above this one."""
        return sum(1 for _ in self.above(account)) - 1

    def qos_of(self, account: str) -> tuple[str, ...]:
        """The QoS that an account has: its own, or those of the nearest above it."""
        for name in self.above(account):
            own = self._own_qos(name)
            if own is not None:
                return tuple(sorted(set(own)))
        return QOS_OF_ROOT

    def default_qos_of(self, account: str, own: Membership | None = None) -> str:
        """The QoS of jobs that name none: that of the account, or `own` of an account or user below it. Empty if none
        is known.

        The nearest one that is among its QoS; else what Slurm would take: `normal`, or the only one.
        """
        has = self.qos_below(account, own)
        said = own.default_qos if own is not None else ""
        for name in self.above(account):
            said = said or self._own_default_qos(name)
        if said in has:
            return said
        return QOS_OF_ROOT[0] if QOS_OF_ROOT[0] in has else has[0] if len(has) == 1 else ""

    def qos_below(self, account: str, own: Membership | None) -> tuple[str, ...]:
        """The QoS of a user in an account."""
        if own is None or own.qos is None:
            return self.qos_of(account)
        return tuple(sorted(set(own.qos)))

    def organization_of(self, account: str) -> str:
        """The organization of an account: its own, that of the nearest account above it, or its own name."""
        for name in self.above(account):
            own = "" if name == ROOT else self._own_organization(name)
            if own:
                return own
        return account

    def _own_qos(self, account: str) -> tuple[str, ...] | None:
        if account in self.wanted.accounts:
            return self.wanted.accounts[account].qos
        association = self.now.associations.get((account, ""))
        return (association.qos or None) if association is not None else None

    def _own_default_qos(self, account: str) -> str:
        if account in self.wanted.accounts:
            return self.wanted.accounts[account].default_qos
        association = self.now.associations.get((account, ""))
        return association.default_qos if association is not None else ""

    def _own_organization(self, account: str) -> str:
        if account in self.wanted.accounts:
            return self.wanted.accounts[account].organization
        return self.now.accounts[account].organization if account in self.now.accounts else ""


def grow_tree(wanted: WantedAccounts, now: Accounting) -> Tree:
    """The tree of these values in this slurmdbd."""
    of_others = {
        association.account: association.parent
        for association in now.associations.values()
        if not association.user and not now.is_ours(association)
    }
    parents = of_others | {name: account.parent for name, account in wanted.accounts.items()}
    return Tree(wanted=wanted, now=now, parents=parents)

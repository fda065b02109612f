"""The tree of accounts as it is after the plan: accounts from the values, and accounts that somebody else made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from sunkpy.core.accounts.records import ROOT, Accounting
from sunkpy.core.accounts.wanted import Membership, WantedAccounts

QOS_OF_ROOT = ("normal",)
"""The QoS of an account if neither it nor any account above it names one."""


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """The tree of accounts as it is after the plan. `parents`: account → its parent, without the accounts that the plan
    closes.
    """

    wanted: WantedAccounts
    now: Accounting
    parents: Mapping[str, str]

    def above(self, account: str) -> Iterator[str]:
        """Yield the account itself and all accounts above it up to the root. Each comes once, even if they form a
        circle.
        """
        seen: set[str] = set()
        while account and account not in seen:
            yield account
            seen.add(account)
            account = self.parents.get(account, "")

    def depth(self, account: str) -> int:
        """Return how many accounts are above this one."""
        return sum(1 for _ in self.above(account)) - 1

    def qos_of(self, account: str) -> tuple[str, ...]:
        """Return the QoS that an account has: its own, or those of the nearest account above that names some."""
        for name in self.above(account):
            own = self._own_qos(name)
            if own is not None:
                return tuple(sorted(set(own)))
        return QOS_OF_ROOT

    def default_qos_of(self, account: str, own: Membership | None = None) -> str:
        """Return the default QoS of an account, or of a user in it (`own`); empty if it is not clear.

        It is the default QoS that is set for the user, the account or else the nearest account above, if the user or
        account has that QoS. Otherwise it is the one that Slurm takes: `normal` if they have it, or else their only
        QoS.
        """
        has = self.qos_below(account, own)
        said = own.default_qos if own is not None else ""
        for name in self.above(account):
            said = said or self._own_default_qos(name)
        if said in has:
            return said
        return QOS_OF_ROOT[0] if QOS_OF_ROOT[0] in has else has[0] if len(has) == 1 else ""

    def qos_below(self, account: str, own: Membership | None) -> tuple[str, ...]:
        """Return the QoS of a user in an account: those of the user's settings there (`own`), or else those of the
        account.
        """
        if own is None or own.qos is None:
            return self.qos_of(account)
        return tuple(sorted(set(own.qos)))

    def organization_of(self, account: str) -> str:
        """Return the organization of an account: its own, or that of the nearest account above that has one, or the
        account's name.
        """
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
    """Return the tree of accounts as it is after the plan: the accounts in the values, and those in slurmdbd that
    others made.
    """
    of_others = {
        association.account: association.parent
        for association in now.associations.values()
        if not association.user and not now.is_ours(association)
    }
    parents = of_others | {name: account.parent for name, account in wanted.accounts.items()}
    return Tree(wanted=wanted, now=now, parents=parents)

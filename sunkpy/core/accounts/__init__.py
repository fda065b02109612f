"""Slurm's accounts: what an admin wants in the values, what slurmdbd has, and the changes between them."""

from sunkpy.core.accounts.batches import in_batches
from sunkpy.core.accounts.changes import Change
from sunkpy.core.accounts.plan import AccountsPlan, plan_accounts
from sunkpy.core.accounts.plan_text import describe_change, describe_plan
from sunkpy.core.accounts.records import Accounting
from sunkpy.core.accounts.wanted import WantedAccounts

__all__ = [
    "Accounting",
    "AccountsPlan",
    "Change",
    "WantedAccounts",
    "describe_change",
    "describe_plan",
    "in_batches",
    "plan_accounts",
]

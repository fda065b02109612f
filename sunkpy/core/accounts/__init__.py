"""Accounts as values: what an administrator wants, what slurmdbd has, and what has to be changed."""

from sunkpy.core.accounts.batches import in_batches
from sunkpy.core.accounts.changes import Change
from sunkpy.core.accounts.plan import Plan, plan_accounts
from sunkpy.core.accounts.records import Accounting
from sunkpy.core.accounts.told import tell_change, tell_plan
from sunkpy.core.accounts.wanted import Wanted

__all__ = ["Accounting", "Change", "Plan", "Wanted", "in_batches", "plan_accounts", "tell_change", "tell_plan"]

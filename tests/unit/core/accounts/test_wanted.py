from __future__ import annotations

import msgspec
import pytest

from sunkpy.core.accounts import describe_plan, plan_accounts
from tests.unit.core.accounts.build import EMPTY, settled, values


def test_an_empty_account_of_pods_is_refused():
    """It would close k8s, because a user of Slurm needs a default account."""
    with pytest.raises(msgspec.ValidationError, match=r"length >= 1 - at `\$.pods.account`"):
        values("accounts: {a: {}}\npods: {account: ''}")


def test_without_accounts_there_is_no_account_of_pods():
    """So all accounts may be removed from the values, or all be made with sacctmgr."""
    before = settled(values("accounts: {a: {}}\npods: {account: a}"))
    lines = describe_plan(plan_accounts(values("pods: {account: a}"), before)).splitlines()
    closed = "closed: takes no more jobs and keeps its usage"
    assert [line for line in lines if " a:" in line] == [f"- account a: {closed}", f"- user k8s in account a: {closed}"]
    assert describe_plan(plan_accounts(values("pods: {account: a}"), EMPTY)) == "Nothing to change."

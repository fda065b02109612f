"""Values as people write them, and a slurmdbd as a value: what it makes of each change, as the real one was seen to."""

from __future__ import annotations

import msgspec

from sunkpy.core.accounts import Accounting, AccountsPlan, Change, WantedAccounts, plan_accounts
from sunkpy.core.accounts.changes import (
    ChangeAssociation,
    ChangeQos,
    DescribeAccount,
    MakeAccount,
    MakeMembership,
    MakeQos,
    SetDefaultAccount,
)
from sunkpy.core.accounts.records import ROOT, AccountRecord, AssociationRecord, QosRecord

TRES = frozenset({"cpu", "mem", "node", "billing", "gres/gpu"})
EMPTY = Accounting(
    cluster="it",
    qos={"normal": QosRecord(description="Normal QOS default")},
    accounts={ROOT: AccountRecord(description="default root account", organization=ROOT)},
    associations={
        (ROOT, ""): AssociationRecord(account=ROOT),
        (ROOT, ROOT): AssociationRecord(account=ROOT, user=ROOT),
    },
    default_accounts={ROOT: ROOT},
    tres=TRES,
)
"""A slurmdbd that nobody has written to."""


def values(text: str) -> WantedAccounts:
    """Values from YAML."""
    return msgspec.yaml.decode(text, type=WantedAccounts)


def apply(plan: AccountsPlan, now: Accounting) -> Accounting:
    """slurmdbd after all changes of a plan."""
    for change in plan.changes:
        now = _apply(change, now)
    return now


def settled(wanted: WantedAccounts, now: Accounting = EMPTY) -> Accounting:
    """slurmdbd after it was made to say what these values say."""
    plan = plan_accounts(wanted, now)
    assert not plan.contradictions
    return apply(plan, now)


def _apply(change: Change, now: Accounting) -> Accounting:
    replace = msgspec.structs.replace
    match change:
        case MakeQos() | ChangeQos():
            assert all(other in now.qos for other in change.after.preempts), "slurmdbd: Invalid qos specification"
            return replace(now, qos={**now.qos, change.name: change.after})
        case MakeAccount():
            place = change.association
            assert (place.parent, "") in now.associations, "slurmdbd: Invalid parent account specified"
            accounts = {place.account: change.after} | now.accounts
            return _place(replace(now, accounts=accounts), place)
        case DescribeAccount():
            return replace(now, accounts={**now.accounts, change.name: change.after})
        case MakeMembership():
            made = change.association
            assert (made.account, "") in now.associations, "slurmdbd makes nothing and says success"
            defaults = {made.user: made.account} | now.default_accounts
            if change.is_default:
                defaults[made.user] = made.account
            return _place(replace(now, default_accounts=defaults), made)
        case ChangeAssociation():
            before = now.associations[change.after.key]
            return _place(now, replace(change.after, comment=before.comment))
        case SetDefaultAccount():
            place = change.association
            assert now.associations[place.key] == place, "slurmdbd makes them alike"
            return replace(now, default_accounts={**now.default_accounts, place.user: place.account})


def _place(now: Accounting, association: AssociationRecord) -> Accounting:
    assert set(association.qos) <= set(now.qos), "slurmdbd: Invalid qos specification"
    assert association.default_qos in association.qos, "slurmdbd takes it and says nothing"
    return msgspec.structs.replace(now, associations={**now.associations, association.key: association})

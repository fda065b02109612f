"""Whatever is wanted, and whatever is there: one pass settles it, and nothing of others is touched."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.accounts import Accounting, WantedAccounts, plan_accounts
from sunkpy.core.accounts.records import CLOSED, AccountRecord, AssociationRecord, Ceiling, Limits, QosRecord
from sunkpy.core.accounts.wanted import Membership, PodUser, WantedAccount, WantedQos, WantedUser
from tests.unit.core.accounts.build import EMPTY, apply

NAMES = ("a", "b", "c", "d")
USERS = ("ann", "bob", "eve")
QOS = ("normal", "x", "y", "z")

# Prepared ones: drawn field by field they cost more time than all that they are drawn for.
CPU, GPU = {"cpu": 3}, {"gres/gpu": 4}
ceilings = st.sampled_from((Ceiling(), Ceiling(jobs=0), Ceiling(submitted=4), Ceiling(jobs=2, submitted=9, tres=GPU)))
limits = st.sampled_from(
    (
        Limits(),
        Limits(jobs=0),
        Limits(jobs=3, submitted=5, tres=CPU | GPU),
        Limits(submitted=0, tres_minutes=GPU, job_tres=CPU),
        Limits(tres=GPU, job_minutes=9),
        Limits(jobs=1, submitted=2, tres=CPU, tres_minutes=CPU, job_tres=GPU, job_minutes=0),
    )
)
lists = st.none() | st.lists(st.sampled_from(QOS), min_size=1, unique=True).map(tuple)
shares = st.integers(0, 9) | st.just("parent")
qos = st.builds(
    WantedQos,
    priority=st.integers(0, 9),
    preempts=st.lists(st.sampled_from(QOS), unique=True, max_size=2).map(tuple),
    limits=limits,
    per_user=ceilings,
    per_account=ceilings,
)
accounts = st.builds(
    WantedAccount,
    parent=st.sampled_from(("root", *NAMES)),
    shares=shares,
    qos=lists,
    default_qos=st.sampled_from(("", *QOS)),
    limits=limits,
)
memberships = st.builds(Membership, shares=shares, qos=lists, default_qos=st.sampled_from(("", *QOS)), limits=limits)
users = st.builds(
    WantedUser,
    accounts=st.dictionaries(st.sampled_from(NAMES), memberships, min_size=1, max_size=3),
    default_account=st.sampled_from(("", *NAMES)),
)


def _mostly_sound(wanted: WantedAccounts) -> WantedAccounts:
    """The same without most contradictions, which drawn values are full of."""
    names = list(wanted.accounts)
    fixed = {
        name: msgspec.structs.replace(
            account, parent=account.parent if account.parent in names[:index] else "root", default_qos="", qos=QOS[:1]
        )
        for index, (name, account) in enumerate(wanted.accounts.items())
    }
    members: dict[str, WantedUser] = {}
    for name, user in wanted.users.items():
        kept = {
            account: msgspec.structs.replace(each, qos=None, default_qos="")
            for account, each in user.accounts.items()
            if account in fixed
        }
        if kept:
            members[name] = WantedUser(accounts=kept, default_account=next(iter(kept)))
    sound_qos: Mapping[str, WantedQos] = {
        name: msgspec.structs.replace(each, preempts=("normal",))
        for name, each in wanted.qos.items()
        if name != "normal"
    }
    pods = PodUser(account=next(iter(fixed), ""))
    return msgspec.structs.replace(wanted, accounts=fixed, users=members, qos=sound_qos, pods=pods)


raw = st.builds(
    WantedAccounts,
    accounts=st.dictionaries(st.sampled_from(NAMES), accounts, max_size=4),
    qos=st.dictionaries(st.sampled_from(QOS), qos, max_size=3),
    users=st.dictionaries(st.sampled_from(USERS), users, max_size=3),
)
wishes = raw | raw.map(_mostly_sound)


@st.composite
def slurmdbds(draw: st.DrawFn) -> Accounting:
    """One that somebody else, earlier values, or both have written to."""
    now = EMPTY
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=2)):
        place = AssociationRecord(account=name, parent="root", shares=draw(st.integers(0, 9)))
        record = AccountRecord(description="by hand", organization=name)
        associations = {**now.associations, place.key: place}
        defaults = dict(now.default_accounts)
        for user in draw(st.lists(st.sampled_from(USERS), unique=True, max_size=2)):
            associations[name, user] = AssociationRecord(account=name, user=user, limits=draw(limits))
            defaults.setdefault(user, name)
        accounts_now = {**now.accounts, name: record}
        now = msgspec.structs.replace(now, accounts=accounts_now, associations=associations, default_accounts=defaults)
    for name in draw(st.lists(st.sampled_from(QOS[1:]), unique=True, max_size=1)):
        now = msgspec.structs.replace(now, qos={**now.qos, name: QosRecord(description="by hand", priority=7)})
    return apply(plan_accounts(draw(wishes), now), now)


def _of_others(now: Accounting) -> tuple[object, ...]:
    return (
        {name: each for name, each in now.qos.items() if not each.is_ours},
        {name: each for name, each in now.accounts.items() if not each.is_ours},
        {key: each for key, each in now.associations.items() if not now.is_ours(each)},
    )


@given(wishes, slurmdbds())
def test_one_pass_settles_it_and_a_second_has_nothing_to_do(wanted: WantedAccounts, now: Accounting):
    after = apply(plan_accounts(wanted, now), now)
    assert plan_accounts(wanted, after).changes == ()


@given(wishes, slurmdbds())
def test_what_others_made_is_never_touched_and_nothing_ever_goes(wanted: WantedAccounts, now: Accounting):
    after = apply(plan_accounts(wanted, now), now)
    assert _of_others(after) == _of_others(now)
    assert now.accounts.keys() <= after.accounts.keys()
    assert now.qos.keys() <= after.qos.keys()
    assert now.associations.keys() <= after.associations.keys()


@given(wishes, slurmdbds())
def test_who_is_not_wanted_can_submit_nothing(wanted: WantedAccounts, now: Accounting):
    plan = plan_accounts(wanted, now)
    if plan.contradictions:
        return
    after = apply(plan, now)
    members = {(account, name) for name, user in wanted.members.items() for account in user.accounts}
    for key, association in after.associations.items():
        if association.user and association.is_ours:
            assert (association.qos == (CLOSED,)) is (key not in members)


@given(wishes, wishes)
def test_what_was_closed_comes_back_as_it_was(first: WantedAccounts, second: WantedAccounts):
    if plan_accounts(first, EMPTY).contradictions:
        return
    before = apply(plan_accounts(first, EMPTY), EMPTY)
    between = apply(plan_accounts(second, before), before)
    after = apply(plan_accounts(first, between), between)
    assert {key: after.associations[key] for key in before.associations} == before.associations
    assert {name: after.accounts[name] for name in before.accounts} == before.accounts

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.accounts.batches import AT_MOST, in_batches
from sunkpy.core.accounts.changes import Change, ChangeAssociation, MakeMembership, SetDefaultAccount
from sunkpy.core.accounts.records import AssociationRecord
from tests.unit.core.accounts.build import EMPTY, settled, values


def member(user: str, account: str = "chem", shares: int = 1) -> MakeMembership:
    return MakeMembership(association=AssociationRecord(account=account, user=user, shares=shares))


def other(user: str, account: str = "chem", shares: int = 1) -> ChangeAssociation:
    before = AssociationRecord(account=account, user=user)
    return ChangeAssociation(after=msgspec.structs.replace(before, shares=shares), before=before)


def test_users_who_are_alike_go_together_whoever_is_between_them():
    ann, bob, eve = member("ann"), member("bob", shares=7), member("eve")
    assert list(in_batches([ann, bob, eve])) == [(ann, eve), (bob,)]


def test_the_default_account_of_a_user_comes_before_another_one():
    changes = [member("ann", "a"), member("bob", "b"), member("ann", "b"), member("bob", "a")]
    assert list(in_batches(changes)) == [(changes[0],), (changes[1],), (changes[2],), (changes[3],)]


def test_changes_of_users_go_together_and_those_of_accounts_alone():
    ann, bob, chem = other("ann", shares=3), other("bob", "phys", shares=9), other("", shares=2)
    assert list(in_batches([ann, bob, chem])) == [(ann, bob), (chem,)]


def test_a_thousand_users_are_ten_requests():
    batches = list(in_batches([member(f"p{number}") for number in range(1000)]))
    assert [len(batch) for batch in batches] == [AT_MOST] * 10


alone = st.just(SetDefaultAccount(association=AssociationRecord(account="a", user="x"), before="b"))
drawn = st.lists(
    st.one_of(
        st.builds(member, st.sampled_from("abc"), st.sampled_from("xy"), st.integers(1, 2)),
        st.builds(other, st.sampled_from(["", "a", "b"]), st.sampled_from("xy"), st.integers(1, 2)),
        alone,
    ),
    max_size=12,
)


@given(drawn)
def test_nothing_is_lost_and_each_user_keeps_the_order(changes: list[Change]):
    batched = [change for batch in in_batches(changes) for change in batch]
    assert sorted(map(repr, batched)) == sorted(map(repr, changes))
    for user in ("a", "b", "c"):
        assert [c for c in batched if is_of(user, c)] == [c for c in changes if is_of(user, c)]


def is_of(user: str, change: Change) -> bool:
    match change:
        case MakeMembership():
            return change.association.user == user
        case ChangeAssociation():
            return change.after.user == user
        case _:
            return False


def test_everybody_begins_in_their_default_account():
    text = """
    accounts: {a: {}, b: {}, c: {}}
    users:
      ann: {accounts: {b: {}, a: {}, c: {shares: 2}}, defaultAccount: c}
      bob: {accounts: {a: {}, b: {}}, defaultAccount: b}
    """
    defaults = settled(values(text), EMPTY).default_accounts
    assert (defaults["ann"], defaults["bob"]) == ("c", "b")

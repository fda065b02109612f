"""Plans the changes of slurmdbd from the chart's values and from what slurmdbd has.

sunkpy changes only objects with its mark: the description of an account or QoS, or the comment of an association,
begins with `k8s: `. The mark lasts as long as the object, also after a restore of the database. What somebody else made
is left alone; if it is in the way, the plan names it (`AccountsPlan.left_alone`).

All clusters of a slurmdbd share its accounts and QoS; each cluster has its own associations and default accounts. So
only the Helm release that runs the slurmdbd changes QoS and account records. Releases of other clusters, its guests,
make accounts that are missing (and the QoS `sunkpy-closed`, if it is missing when they close something). Otherwise they
write only associations with their mark, and default accounts in their own cluster.

Nothing is deleted, because with a deleted association Slurm forgets its usage, and so who has used their share. An
account, user or QoS that is no longer in the values is closed: it takes no more jobs, running jobs continue, and usage
still counts. If it is in the values again later, it is opened. A limit of 0 jobs on the association alone would not
close it, because a limit of the job's QoS takes the place of that limit. So a closed association has only one QoS,
`sunkpy-closed`, which takes no jobs. This QoS, and each QoS that is closed, has the flag OverPartQOS, because otherwise
a limit of the partition's QoS would take the place of the limit of 0 jobs.

Each association gets its QoS and its default QoS explicitly, also inherited ones: Slurm refuses to change an account if
that would leave an association below it without its default QoS, and Slurm's API cannot empty a list.

Each change is possible after those before it. The order: QoS, preempted ones first; accounts from the root down; users,
first in their default accounts, account by account; default accounts; then what is closed. The caller may stop anywhere
and plan again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from sunkpy.core.accounts.changes import (
    Change,
    ChangeAssociation,
    ChangeQos,
    DescribeAccount,
    MakeAccount,
    MakeMembership,
    MakeQos,
    SetDefaultAccount,
)
from sunkpy.core.accounts.contradictions import find_contradictions
from sunkpy.core.accounts.records import (
    CLOSED,
    Accounting,
    AccountRecord,
    AssociationRecord,
    Ceiling,
    Limits,
    QosRecord,
    mark,
)
from sunkpy.core.accounts.tree import Tree, grow_tree
from sunkpy.core.accounts.wanted import Membership, WantedAccounts, count_shares, default_account, limits_of

COMMENT: Final = mark("values")
"""The comment of an association that sunkpy makes. It is set at once, because Slurm's API cannot change it later."""

_OVER_PARTITION: Final = "OverPartQOS"
_CLOSED_QOS: Final = QosRecord(
    description=mark("nothing can be submitted"),
    flags=(_OVER_PARTITION,),
    limits=Limits(submitted=0),
    per_user=Ceiling(submitted=0),
)


class AccountsPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that bring slurmdbd in line with the chart's values. `contradictions`: errors in the values; with
    any, there are no changes.

    `left_alone`: a text for each wanted change that sunkpy does not make itself, with the sacctmgr command for it.
    """

    changes: tuple[Change, ...] = ()
    left_alone: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()


def plan_accounts(wanted: WantedAccounts, now: Accounting) -> AccountsPlan:
    """Return the changes that bring slurmdbd in line with these values, or only the errors in the values if there are
    any.
    """
    tree = grow_tree(wanted, now)
    contradictions = find_contradictions(tree)
    if contradictions:
        return AccountsPlan(contradictions=tuple(contradictions))
    found = [*_qos(tree), *_accounts(tree), *_memberships(tree), *_defaults(tree), *_closing(tree)]
    return AccountsPlan(
        changes=tuple(each for each in found if not isinstance(each, str)),
        left_alone=tuple(each for each in found if isinstance(each, str)),
    )


# ------------------------------------------------------------------------------------------------------------- QoS


def _qos(tree: Tree) -> Iterator[Change | str]:
    for name in _preempted_first(tree.wanted):
        after, before = _wanted_qos(name, tree.wanted), tree.now.qos.get(name)
        if before is None:
            yield MakeQos(name=name, after=after)
        elif not before.is_ours:
            yield _not_ours(f"QoS {name}", f"modify qos {name} set description='{mark(name)}'")
        else:
            if before.preempts and not after.preempts:
                others, command = ", ".join(before.preempts), f"sacctmgr modify qos {name} set preempt=''"
                yield f"QoS {name} still preempts {others}, because Slurm's API cannot remove the last one: {command}"
                after = msgspec.structs.replace(after, preempts=before.preempts)
            if after != before:
                yield ChangeQos(name=name, after=after, before=before)


def _preempted_first(wanted: WantedAccounts) -> list[str]:
    ordered: dict[str, None] = {}
    waiting = [(name, False) for name in reversed(list(wanted.qos))]
    while waiting:
        name, is_ready = waiting.pop()
        if is_ready:
            ordered[name] = None
        elif name in wanted.qos and name not in ordered:
            waiting.append((name, True))
            waiting.extend((other, False) for other in wanted.qos[name].preempts)
    return list(ordered)


def _wanted_qos(name: str, wanted: WantedAccounts) -> QosRecord:
    qos = wanted.qos[name]
    return QosRecord(
        description=mark(qos.description or name),
        priority=qos.priority,
        preempts=tuple(sorted(set(qos.preempts))),
        preempt_mode=qos.preempt_mode,
        flags=tuple(sorted(set(qos.flags))),
        limits=qos.limits,
        per_user=qos.per_user,
        per_account=qos.per_account,
    )


# -------------------------------------------------------------------------------------------------------- accounts


def _accounts(tree: Tree) -> Iterator[Change | str]:
    for name in sorted(tree.wanted.accounts, key=lambda name: (tree.depth(name), name)):
        account, place = _wanted_account(name, tree), _wanted_place(name, tree)
        account_now, place_now = tree.now.accounts.get(name), tree.now.associations.get((name, ""))
        if tree.now.is_of_others(name):
            modify = f"modify account {name} set description='{mark(name)}'"
            if tree.now.is_guest:
                modify = f"modify account {name} where cluster={tree.now.cluster} set comment='{COMMENT}'"
            yield _not_ours(f"account {name}", modify)
        elif account_now is None or place_now is None:
            yield MakeAccount(after=account, association=place)
        else:
            if account != account_now and not tree.now.is_guest:
                yield DescribeAccount(name=name, after=account, before=account_now)
            yield from _change(_as_marked(place, place_now), place_now)


def _wanted_account(name: str, tree: Tree) -> AccountRecord:
    account = tree.wanted.accounts[name]
    return AccountRecord(description=mark(account.description or name), organization=tree.organization_of(name))


def _wanted_place(name: str, tree: Tree) -> AssociationRecord:
    account = tree.wanted.accounts[name]
    return AssociationRecord(
        account=name,
        parent=account.parent,
        shares=count_shares(account.shares),
        qos=tree.qos_of(name),
        default_qos=tree.default_qos_of(name),
        comment=COMMENT,
        limits=account.limits,
    )


# ----------------------------------------------------------------------------------------------------------- users


def _memberships(tree: Tree) -> Iterator[Change | str]:
    members = tree.wanted.members
    places = [
        (account != default_account(user), account, name) for name, user in members.items() for account in user.accounts
    ]
    for _, account, name in sorted(places):
        after = _wanted_membership(name, account, members[name].accounts[account], tree)
        before = tree.now.associations.get(after.key)
        if before is None:
            yield MakeMembership(association=after, is_default=_becomes_default(name, account, tree))
        elif before.is_ours:
            yield from _change(_as_marked(after, before), before)
        else:
            modify = f"modify user {name} where account={account} cluster={tree.now.cluster} set comment='{COMMENT}'"
            yield _not_ours(f"user {name} in account {account}", modify)


def _wanted_membership(user: str, account: str, membership: Membership, tree: Tree) -> AssociationRecord:
    return AssociationRecord(
        account=account,
        user=user,
        shares=count_shares(membership.shares),
        qos=tree.qos_below(account, membership),
        default_qos=tree.default_qos_of(account, membership),
        comment=COMMENT,
        limits=limits_of(tree.wanted, user, membership),
    )


def _defaults(tree: Tree) -> Iterator[Change | str]:
    """Yield changes of default accounts for users who are already in their new default account. For the others
    `MakeMembership` sets it. If somebody else chose the present default, a text says that it stays.
    """
    for name, user in sorted(tree.wanted.members.items()):
        before, after = tree.now.default_accounts.get(name), default_account(user)
        if before is None or before == after:
            continue
        place = tree.now.associations.get((after, name))
        if not _is_free(name, tree):
            modify = f"modify user {name} where cluster={tree.now.cluster} set defaultaccount={after}"
            yield _not_ours(f"default account {before} of user {name}", modify)
        elif place is not None and place.is_ours:
            wanted = _wanted_membership(name, after, user.accounts[after], tree)
            yield SetDefaultAccount(association=_as_marked(wanted, place), before=before)


def _becomes_default(name: str, account: str, tree: Tree) -> bool:
    """True if this account, which the user joins now, has to become the user's default account.

    False for a user who is new to slurmdbd, because Slurm makes their first account the default anyway.
    """
    before = tree.now.default_accounts.get(name)
    is_wanted = default_account(tree.wanted.members[name]) == account
    return before is not None and before != account and is_wanted and _is_free(name, tree)


def _is_free(name: str, tree: Tree) -> bool:
    """True if sunkpy may change the user's default account: the user has none, or sunkpy put the user into the present
    one.

    False if slurmdbd has a default account but no association of the user there: then somebody else made associations
    by partition, which are not read.
    """
    before = tree.now.default_accounts[name]
    association = tree.now.associations.get((before, name))
    return not before or (association is not None and association.is_ours)


# --------------------------------------------------------------------------------------------------------- closing


def _closing(tree: Tree) -> Iterator[Change | str]:
    """Yield the changes that close QoS and associations which sunkpy made and which are no longer in the values, or a
    text if somebody else's object prevents this.
    """
    wanted, now = tree.wanted, tree.now
    unwanted, closed = list(_unwanted(tree)), now.qos.get(CLOSED)
    if closed is None and unwanted:
        yield MakeQos(name=CLOSED, after=_CLOSED_QOS)
    elif closed is not None and closed.is_ours and closed != _CLOSED_QOS and not now.is_guest:
        yield ChangeQos(name=CLOSED, after=_CLOSED_QOS, before=closed)
    elif closed is not None and not closed.is_ours and unwanted:
        yield _not_ours(f"QoS {CLOSED}", f"modify qos {CLOSED} set description='{_CLOSED_QOS.description}'")
    for association in unwanted:
        yield from _change(_closed(association), association, closes=True)
    for name, before in sorted(now.qos.items()):
        if before.is_ours and not now.is_guest and name not in wanted.qos and name != CLOSED:
            after = _closed_qos(before)
            if after != before:
                yield ChangeQos(name=name, after=after, before=before, closes=True)


def _unwanted(tree: Tree) -> Iterator[AssociationRecord]:
    wanted, now = tree.wanted, tree.now
    members = {(account, name) for name, user in wanted.members.items() for account in user.accounts}
    for (account, user), association in sorted(now.associations.items()):
        is_wanted = (account, user) in members if user else account in wanted.accounts
        if now.is_ours(association) and not is_wanted:
            yield association


def _closed(association: AssociationRecord) -> AssociationRecord:
    limits = msgspec.structs.replace(association.limits, submitted=0)
    return msgspec.structs.replace(association, qos=(CLOSED,), default_qos=CLOSED, limits=limits)


def _closed_qos(qos: QosRecord) -> QosRecord:
    flags = tuple(sorted({*qos.flags, _OVER_PARTITION}))
    return msgspec.structs.replace(qos, flags=flags, limits=msgspec.structs.replace(qos.limits, submitted=0))


def _as_marked(after: AssociationRecord, before: AssociationRecord) -> AssociationRecord:
    return msgspec.structs.replace(after, comment=before.comment)


def _change(after: AssociationRecord, before: AssociationRecord, *, closes: bool = False) -> Iterator[Change]:
    if after != before:
        yield ChangeAssociation(after=after, before=before, closes=closes)


def _not_ours(what: str, command: str) -> str:
    return f"{what} was made by somebody else and is left as it is. To hand it over to sunkpy: sacctmgr {command}"

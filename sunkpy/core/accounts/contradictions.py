"""Errors in the values for accounts, QoS and users, found before anything in slurmdbd is changed.

slurmdbd accepts almost anything and drops parts without an error: a name with a quote, a default QoS that does not
exist, a TRES that it does not count. So all values are checked here first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from sunkpy.core.accounts.records import CLOSED, ROOT, Ceiling, Limits
from sunkpy.core.accounts.tree import Tree
from sunkpy.core.accounts.wanted import Membership, WantedAccount, WantedUser, default_account

_NAME = re.compile(r"[a-z0-9][a-z0-9_.+-]{0,59}")
"""A valid name of an account or QoS. It has no upper-case letters, because `Chem` and `chem` are equal for MariaDB."""

_USER = re.compile(r"[a-z0-9_][a-z0-9_.@-]{0,59}\$?")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")


def find_contradictions(tree: Tree) -> list[str]:
    """Return one sentence for each error in the values for accounts, given what slurmdbd has; empty if the values can
    be applied.
    """
    parts = (_in_names, _upper_case_twins, _in_texts, _in_qos, _in_accounts, _in_users)
    return list(chain.from_iterable(part(tree) for part in parts))


def _in_names(tree: Tree) -> Iterator[str]:
    wanted = tree.wanted
    for kind, names, pattern in (
        ("account", wanted.accounts, _NAME),
        ("QoS", wanted.qos, _NAME),
        ("user", wanted.members, _USER),
    ):
        for name in names:
            if not pattern.fullmatch(name):
                yield (
                    f"{kind} {name!r}: a name has at most 60 characters, which are lower-case letters, digits and _ . -"
                )
            elif name == ROOT and kind != "QoS":
                yield f"{kind} root belongs to Slurm"
            elif name == CLOSED and kind == "QoS":
                yield f"QoS {CLOSED} is reserved for accounts and users that sunkpy has closed"
    if wanted.has_pod_user and wanted.pods.user in wanted.users:
        yield f"user {wanted.pods.user} submits the jobs of pods and is in every account: remove it from users"


def _upper_case_twins(tree: Tree) -> Iterator[str]:
    """Yield an error for each wanted name that slurmdbd has with upper-case letters, because its database takes both
    for the same. sacctmgr writes no such names, but other clients may.
    """
    wanted, now = tree.wanted, tree.now
    for kind, names, present in (
        ("account", wanted.accounts, now.accounts),
        ("QoS", wanted.qos, now.qos),
        ("user", wanted.members, now.default_accounts),
    ):
        for name in present:
            if name != name.lower() and name.lower() in names:
                yield f"{kind} {name.lower()}: slurmdbd has {name}, and for its database both are the same name"


def _in_texts(tree: Tree) -> Iterator[str]:
    wanted = tree.wanted
    texts = {f"QoS {name}": qos.description for name, qos in wanted.qos.items()}
    for name, account in wanted.accounts.items():
        texts[f"account {name}"] = account.description
        texts[f"organization of account {name}"] = account.organization
    yield from (
        f"{what}: its text may not have line breaks or tabs"
        for what, text in texts.items()
        if _UNPRINTABLE.search(text)
    )


def _in_qos(tree: Tree) -> Iterator[str]:
    known = _known_qos(tree)
    for name, qos in tree.wanted.qos.items():
        if tree.now.is_guest:
            yield f"QoS {name}: all clusters of a slurmdbd share its QoS: set it in the release that runs the slurmdbd"
        for other in qos.preempts:
            if other not in known:
                yield f"QoS {name} preempts {other}, which is not in the values, and nobody else has made it"
        circle = _preemption_circle(name, tree)
        if circle:
            yield f"QoS {name} preempts itself: {' > '.join(circle)}"
        yield from _in_tres(f"QoS {name}", tree, qos.limits, qos.per_user, qos.per_account)


def _preemption_circle(start: str, tree: Tree) -> list[str]:
    preempts: dict[str, Iterable[str]] = {name: qos.preempts for name, qos in tree.now.qos.items() if not qos.is_ours}
    preempts |= {name: qos.preempts for name, qos in tree.wanted.qos.items()}
    ways = [[start, other] for other in preempts.get(start, ())]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        if way[-1] == start:
            return way
        if way[-1] not in seen:
            seen.add(way[-1])
            ways.extend([*way, other] for other in preempts.get(way[-1], ()))
    return []


def _in_accounts(tree: Tree) -> Iterator[str]:
    wanted = tree.wanted
    known = _known_accounts(tree)
    for name, account in wanted.accounts.items():
        if account.organization and account.organization not in wanted.organizations:
            yield f"account {name} is of organization {account.organization}, which is not among the organizations"
        if account.parent not in known:
            yield f"account {name} is below {account.parent}, which is not in the values, and nobody else has made it"
        elif ROOT not in (way := list(tree.above(name))):
            yield f"account {name} is below itself: {' < '.join([*way, tree.parents.get(way[-1], '')])}"
        yield from _in_own_qos(f"account {name}", account, tree.default_qos_of(name), tree)
        yield from _in_tres(f"account {name}", tree, account.limits)
    if wanted.has_pod_user and wanted.pods.account not in wanted.accounts:
        yield f"the account of pods is {wanted.pods.account}, which is not among the accounts"


def _in_users(tree: Tree) -> Iterator[str]:
    known = _known_accounts(tree) - {ROOT}
    for name, user in tree.wanted.members.items():
        yield from _in_default(name, user)
        for account, membership in user.accounts.items():
            who = f"user {name} in account {account}"
            if account not in known:
                yield f"{who}: there is no such account"
                continue
            yield from _in_own_qos(who, membership, tree.default_qos_of(account, membership), tree)
            yield from _in_tres(who, tree, membership.limits)


def _in_default(name: str, user: WantedUser) -> Iterator[str]:
    if not user.accounts:
        yield f"user {name} is in no account"
    elif not default_account(user):
        yield f"user {name} is in several accounts: one of them has to be the defaultAccount"
    elif user.accounts and default_account(user) not in user.accounts:
        yield f"user {name} has the default account {user.default_account}, which is not one of theirs"


def _in_own_qos(who: str, own: WantedAccount | Membership, default: str, tree: Tree) -> Iterator[str]:
    if own.qos == ():
        yield (
            f"{who} has an empty `qos`, so it could use no QoS: to inherit the QoS of the account above, leave "
            "`qos` out"
        )
        return
    for qos in own.qos or ():
        if qos not in _known_qos(tree):
            yield f"{who} has QoS {qos}, which is not in the values, and nobody else has made it"
    if own.default_qos not in ("", default):
        yield f"{who} has the default QoS {own.default_qos}, which is not one of its own"
    elif not default:
        yield f"{who} has several QoS: one of them has to be the defaultQos"


def _in_tres(who: str, tree: Tree, *limits: Ceiling) -> Iterator[str]:
    """Yield an error for each TRES in these limits that Slurm does not count: slurmdbd drops such limits without an
    error. `who`: the object with the limits, for the text.
    """
    named: set[str] = set()
    for limit in limits:
        tables: list[Mapping[str, int]] = [limit.tres]
        if isinstance(limit, Limits):
            tables += [limit.tres_minutes, limit.job_tres]
        named |= {tres for table in tables for tres in table}
    for tres in sorted(named - tree.now.tres):
        yield f"{who} limits {tres}, which Slurm does not count: add it to accounting.tres of chart slurm"


def _known_qos(tree: Tree) -> set[str]:
    """Return the names of the QoS that exist after the plan: in the values, or made by somebody else. QoS that sunkpy
    closes are left out.
    """
    now = tree.now
    others = (name for name, qos in now.qos.items() if now.is_guest or not qos.is_ours)
    return {*tree.wanted.qos, *others} - {CLOSED}


def _known_accounts(tree: Tree) -> set[str]:
    return {*tree.parents, ROOT}

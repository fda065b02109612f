"""Writes an accounts plan as text: what `--dry-run` prints, and the log line of each change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
from sunkpy.core.accounts.plan import AccountsPlan
from sunkpy.core.accounts.records import SHARES_OF_PARENT, AssociationRecord

_CLOSED = "closed: takes no more jobs and keeps its usage"


def describe_plan(plan: AccountsPlan) -> str:
    """Return the accounts plan as text. The lines begin with `+` (made), `~` (changed), `-` (closed), or `!` (not
    changed by sunkpy, or an error in the values).
    """
    lines = [f"! {text}" for text in (*plan.contradictions, *plan.left_alone)]
    lines += [describe_change(change) for change in plan.changes]
    if plan.contradictions:
        lines.append("Nothing is changed until the errors in the values are corrected.")
    elif not plan.changes:
        lines.append("Nothing to change.")
    return "\n".join(lines)


def describe_change(change: Change) -> str:
    """Return one change of slurmdbd as a line of text."""
    match change:
        case MakeQos():
            return f"+ QoS {change.name}{_facts(change.after)}"
        case ChangeQos():
            return _differs(f"QoS {change.name}", change)
        case MakeAccount():
            return f"+ account {change.association.account}{_facts(change.association, change.after)}"
        case DescribeAccount():
            return f"~ account {change.name}: {_difference(change.before, change.after)}"
        case MakeMembership():
            default = ", their default account" if change.is_default else ""
            return f"+ {_name(change.association)}{_facts(change.association)}{default}"
        case ChangeAssociation():
            return _differs(_name(change.after), change)
        case SetDefaultAccount():
            user, after = change.association.user, change.association.account
            return f"~ user {user}: default account {change.before or 'none'} -> {after}"


def _differs(what: str, change: ChangeQos | ChangeAssociation) -> str:
    return f"- {what}: {_CLOSED}" if change.closes else f"~ {what}: {_difference(change.before, change.after)}"


def _name(association: AssociationRecord) -> str:
    where = f"account {association.account}"
    return f"user {association.user} in {where}" if association.user else where


def _facts(*records: msgspec.Struct) -> str:
    said = [f"{name} {value}" for record in records for name, value in _words(record) if value]
    return f": {', '.join(said)}" if said else ""


def _difference(before: msgspec.Struct, after: msgspec.Struct) -> str:
    was, becomes = dict(_words(before)), dict(_words(after))
    return ", ".join(
        f"{name} {was.get(name) or 'none'} -> {becomes.get(name) or 'none'}"
        for name in dict.fromkeys([*was, *becomes])
        if was.get(name) != becomes.get(name)
    )


def _words(record: msgspec.Struct) -> Iterator[tuple[str, str]]:
    """Yield a record's field names and values as text, each limit separately, without account, user and comment."""
    for field in record.__struct_fields__:
        value = getattr(record, field)
        name = field.replace("_", " ").replace("qos", "QoS")
        if field in ("account", "user", "comment"):
            continue
        if isinstance(value, msgspec.Struct):
            yield from ((f"{name} {inner}", text) for inner, text in _words(value))
        elif isinstance(value, Mapping):
            yield from ((f"{name} {key}", str(count)) for key, count in sorted(value.items()))
        else:
            yield name, _text(field, value)


def _text(field: str, value: object) -> str:
    if field == "shares" and value == SHARES_OF_PARENT:
        return "parent"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "" if value is None else str(value)

"""Batches of changes of users, one request each: slurmdbd needs as long for one user as for ten.

A batch has equal new members of one account, or changes of members of any kind. The order for each user is kept, so
that the first account of a new user is still the default. All other changes go alone and in order: accounts from the
root down, QoS before those that preempt them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from sunkpy.core.accounts.changes import Change, ChangeAssociation, MakeMembership

AT_MOST: Final = 100
"""Half a second of work for slurmdbd, in which others wait."""


def in_batches(changes: Iterable[Change]) -> Iterator[tuple[Change, ...]]:
    """The changes as batches, each with changes of one kind."""
    waiting: dict[bytes, list[Change]] = {}
    users: set[str] = set()
    for change in changes:
        likeness = _likeness(change)
        if likeness is None or _user(change) in users:
            yield from _cut(waiting)
            waiting, users = {}, set()
        if likeness is None:
            yield (change,)
        else:
            waiting.setdefault(likeness, []).append(change)
            users.add(_user(change))
    yield from _cut(waiting)


def _likeness(change: Change) -> bytes | None:
    """Equal for changes that go together; None for a change that goes alone."""
    match change:
        case MakeMembership():
            alike = msgspec.structs.replace(change.association, user="")
            return msgspec.json.encode((alike, change.is_default), order="deterministic")
        case ChangeAssociation() if change.after.user:
            return b"changes"
        case _:
            return None


def _user(change: Change) -> str:
    match change:
        case MakeMembership():
            return change.association.user
        case ChangeAssociation():
            return change.after.user
        case _:
            return ""


def _cut(waiting: dict[bytes, list[Change]]) -> Iterator[tuple[Change, ...]]:
    for alike in waiting.values():
        for start in range(0, len(alike), AT_MOST):
            yield tuple(alike[start : start + AT_MOST])

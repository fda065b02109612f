"""Puts changes for users into batches, each sent as one request: slurmdbd needs as long for one user as for ten.

A batch has new members of one account with equal settings, or changes of existing members of any account. The order for
each user is kept, so that the first account of a new user is still the default. All other changes are sent alone, in
the order of the plan (`sunkpy.core.accounts.plan`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from sunkpy.core.accounts.changes import Change, ChangeAssociation, MakeMembership

AT_MOST: Final = 100
"""The most changes in a batch: half a second of work for slurmdbd, in which other clients wait."""


def in_batches(changes: Iterable[Change]) -> Iterator[tuple[Change, ...]]:
    """Yield the changes in batches, each of which is sent as one request. A change that cannot be combined with others
    is a batch of its own.
    """
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
    """Return a value that is equal for changes that may be in one batch; None for a change that is sent alone."""
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

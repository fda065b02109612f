"""Changes of users that one request can carry out together: slurmdbd needs as long for one alone as for ten together.

Together are new members who are the same in the same account, and changes of members, whatever they are. Of each user
the order of a plan is kept, so that the first account that a new one is put into is still the default. All else goes
alone, and so does the order between what is no member: accounts from the root down, QoS before those that preempt them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from sunkpy.core.accounts.changes import Change, ChangeAssociation, MakeMembership

AT_MOST: Final = 100
"""Half a second's work for slurmdbd, which keeps others waiting meanwhile."""


def in_batches(changes: Iterable[Change]) -> Iterator[tuple[Change, ...]]:
    """The same changes in requests, each of one kind."""
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
    """Equal for changes that go together; None for what goes alone."""
    match change:
        case MakeMembership():
            return msgspec.json.encode(msgspec.structs.replace(change.association, user=""), order="deterministic")
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

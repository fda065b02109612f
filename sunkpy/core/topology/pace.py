"""When a new topology file is written: slurmctld and every slurmd read all their files anew for it.

So changes are gathered until they have settled, and at most one file is written in ten minutes, the first one at once.
"""

from __future__ import annotations

import msgspec


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """At most one file each `each_s`; one is written when it has been the same for `settles_s`, or after `longest_s`.

    `again_s`: what Slurm did not take for a node is tried again after this time. `start_s`: a start of slurmctld shall
    take no more processor time than this for nodes that its file does not place (`restart`). With all else that it does
    then, it answers within 10 s.
    """

    each_s: float = 600.0
    settles_s: float = 10.0
    longest_s: float = 60.0
    again_s: float = 60.0
    start_s: float = 4.0


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A file that differs from the written one: how long it is this one, and how long it is any other."""

    text: str
    same_since_s: float
    other_since_s: float


def note(pending: Pending | None, *, wanted: str, written: str, now_s: float) -> Pending | None:
    """What is pending now that this file is wanted; None when it is the written one."""
    if wanted == written:
        return None
    if pending is None:
        return Pending(text=wanted, same_since_s=now_s, other_since_s=now_s)
    if pending.text == wanted:
        return pending
    return Pending(text=wanted, same_since_s=now_s, other_since_s=pending.other_since_s)


def is_due(pending: Pending | None, pace: Pace, *, written_ago_s: float | None, now_s: float) -> bool:
    """The pending file may be written now; `written_ago_s` is None if there is none yet."""
    if pending is None or (written_ago_s is not None and written_ago_s < pace.each_s):
        return False
    return now_s - pending.same_since_s >= pace.settles_s or now_s - pending.other_since_s >= pace.longest_s

"""When a new topology file is written. slurmctld and every slurmd read all their files again for it.

So changes are collected until they have settled, and at most one file is written in ten minutes, the first one at once.
"""

from __future__ import annotations

import msgspec


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How often the topology file may be written: at most once in `each_s`, when it has been the same for `settles_s`,
    or after `longest_s`.

    `again_s`: after this time, a node's place that Slurm did not accept is tried again. `start_s`: the most processor
    time that a start of slurmctld may take for nodes that its file does not place (`restart`), so that it answers
    within 10 s even on a busy machine.
    """

    each_s: float = 600.0
    settles_s: float = 10.0
    longest_s: float = 60.0
    again_s: float = 60.0
    start_s: float = 2.0


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A file that differs from the written one: since when it has this text, and since when it differs at all."""

    text: str
    same_since_s: float
    other_since_s: float


def note(pending: Pending | None, *, wanted: str, written: str, now_s: float) -> Pending | None:
    """Return what is pending now that this file is wanted; None if it is the written one."""
    if wanted == written:
        return None
    if pending is None:
        return Pending(text=wanted, same_since_s=now_s, other_since_s=now_s)
    if pending.text == wanted:
        return pending
    return Pending(text=wanted, same_since_s=now_s, other_since_s=pending.other_since_s)


def is_due(pending: Pending | None, pace: Pace, *, written_ago_s: float | None, now_s: float) -> bool:
    """True if the pending file may be written now. `written_ago_s` is None if no file was written yet."""
    if pending is None or (written_ago_s is not None and written_ago_s < pace.each_s):
        return False
    return now_s - pending.same_since_s >= pace.settles_s or now_s - pending.other_since_s >= pace.longest_s

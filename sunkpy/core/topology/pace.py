"""Decides when a new topology file is written. After each write, slurmctld and every slurmd read all their files again.

So changes are collected until they have settled (ten seconds without a change, or a minute at most), and a file is
written ten minutes after the one before at the earliest.
"""

from __future__ import annotations

import msgspec


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How often the topology file may be written: at most once in `each_s`, and only when its new text has been the
    same for `settles_s` or has differed from the written file for `longest_s`.

    `again_s`: after this time, a node's place that Slurm did not accept is tried again. `start_s`: the most processor
    time that a start of slurmctld may take for nodes that its file does not place (`restart`). With this limit
    slurmctld answers within 10 s even on a busy machine.
    """

    each_s: float = 600.0
    settles_s: float = 10.0
    longest_s: float = 60.0
    again_s: float = 60.0
    start_s: float = 2.0


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A topology file that is to be written: its text, since when the text is the same, and since when it differs from
    the written file.
    """

    text: str
    same_since_s: float
    other_since_s: float


def note(pending: Pending | None, *, wanted: str, written: str, now_s: float) -> Pending | None:
    """Return the file that is to be written, now that `wanted` is its right text; None if `written` has this text
    already.
    """
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

"""What kind of job a gang has asked for: the first word behind the gang in the job's comment.

* `+whole`: a slot for each seat. A job without such a word is one, too: that of a gang with one role, or one whose pods
  name nodes. Jobs of the version before say `+named` there.
* `+shared=worker.4,launcher.1`: a slot for each of the 4 workers; the seats of the other roles are put into these
  slots in turn, in this order. The numbers are those for which it was asked.
* `+replacement`: for the members that had nodes when their job was lost. Others have no slot there.

Source of the limit: slurmctld, job_mgr.c, validate_job_create_req.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from sunkpy.core.gang.identity import GangId, token

LONGEST_COMMENT: Final = 1024
"""Bytes that slurmctld takes."""

LONGEST_KIND: Final = 320
"""A gang with so many roles that its kind is longer is asked for with a slot for each seat."""

_FORM: Final = re.compile(r"k8s:\S+ \+(whole|named|replacement|shared=[\w.,-]+)(?: |$)", re.ASCII)
_SEATS: Final = re.compile(r"([\w.-]+)\.([1-9]\d{0,8})", re.ASCII)


class JobKind(msgspec.Struct, frozen=True):
    """`name` as in the comment. `seats`: for how many seats of each role a shared job was asked for."""

    name: str
    seats: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        seats = ",".join(f"{role}.{count}" for role, count in self.seats)
        return f"+{self.name}={seats}" if seats else f"+{self.name}"


WHOLE: Final = JobKind("whole")
REPLACEMENT: Final = JobKind("replacement")


def make_comment(id: GangId, kind: JobKind | None, text: str) -> str:
    """The comment of a job: whose it is, its kind, and what the user wants to see there, as much as Slurm takes."""
    if kind is None and text.startswith("+"):
        kind = WHOLE  # what people write is no kind
    words = id.comment(" ".join(filter(None, (str(kind or ""), text))))
    return words.encode()[:LONGEST_COMMENT].decode(errors="ignore")


def kind_in(comment: str) -> JobKind | None:
    """The kind that a comment of ours names; None when it names none."""
    found = _FORM.match(comment)
    if found is None:
        return None
    name, _, seats = found.group(1).partition("=")
    words = seats.split(",") if seats else []
    pairs = {pair[1]: int(pair[2]) for word in words if (pair := _SEATS.fullmatch(word)) is not None}
    return JobKind(name, tuple(pairs.items())) if len(pairs) == len(words) else None


def shared_kind(seats: list[tuple[str, int]]) -> JobKind | None:
    """The kind of a job with a slot for each seat of the first role; None when a comment cannot carry it."""
    counts = {role_word(role): count for role, count in seats}
    kind = JobKind("shared", tuple(counts.items()))
    return kind if len(counts) == len(seats) and len(str(kind)) <= LONGEST_KIND else None


def role_word(role: str) -> str:
    """The name of a role as it stands in a kind."""
    return token(role) or "-"

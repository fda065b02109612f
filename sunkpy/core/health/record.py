"""The health record of a Node: the annotation `sunkpy.dev/health`, which is all that sunkpy remembers of its health.

    well ─▶ suspect ─▶ closing ─▶ draining ─▶ drained ─▶ remedy
     ▲         │                     ▲           │           │
     ├─────────┘         (drained by Slurm)      ├───────────┤
     ├── returning ◀── verify ◀── cured ─────────┤           │
     └── a person ◀───── needs-a-person ◀────────┴───────────┘

From any closed state a cured node goes to `verify` if its NodeSet has a check that no start of slurmd has passed since
the cure. Then it goes to `well`, or to `returning` while somebody else's drain in Slurm is lifted. A record is a few
hundred bytes: it keeps the last steps, and the returns of the last days. The log of a failed check adds a kilobyte.
"""

from __future__ import annotations

import enum
from datetime import datetime
from itertools import takewhile
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Wire
from sunkpy.core.model.times import parse_rfc3339, rfc3339

_KEPT_STEPS: Final = 12
_KEPT_TEXT: Final = 160
_KEPT_RETURNS: Final = 10


class State(enum.StrEnum):
    """The health state of a Node. The picture at the top of this module shows which state follows which."""

    WELL = "well"  # no signal; the record keeps the history
    SUSPECT = "suspect"  # a signal is there; sunkpy waits to see whether it lasts, or for room under the cap
    CLOSING = "closing"  # the syncer is to drain the Slurm node
    DRAINING = "draining"  # no new job starts on the node; Slurm has not yet said that no job is left
    DRAINED = "drained"  # no job runs on the node; sunkpy waits for the cure
    REMEDY = "remedy"  # the object of the rule's remedy was written; sunkpy waits for the cure
    VERIFY = "verify"  # cured; the next start of slurmd checks the machine first
    RETURNING = "returning"  # cured; the syncer is to lift the drain that somebody else set in Slurm
    PERSON = "needs-a-person"  # closed until a person acts, or a later start of slurmd passes the check that failed


CLOSED: Final = frozenset({State.CLOSING, State.DRAINING, State.DRAINED, State.REMEDY, State.VERIFY, State.PERSON})
"""The states in which a node is to get no new job because of its health."""


class Step(Wire, frozen=True, kw_only=True):
    """One past step of a health record: the Node came to `state` at the time `at`, for the reason `text`."""

    at: str
    state: State
    text: str = ""


class Record(Wire, frozen=True, kw_only=True):
    """The health record of a Node, as JSON in the annotation `sunkpy.dev/health`. Times are in RFC 3339.

    `at`: when the Node came to `state`. `signal`: the name of the rule by which the Node is sick; `text` is the
    evidence; `since` is when the signal began by its source, or when sunkpy first saw it. `cure`: what has to happen
    before the Node comes back, as the rule says. `closes`: True if sunkpy drains the node, False if Slurm has drained
    it. `reason`: the reason of the drain that somebody else set in Slurm, byte for byte, if that drain is the signal.
    `boot`: the boot ID of the machine when the node was closed. `run`: the last start of slurmd that does not count as
    a check of the cured machine. `log`: the last lines of the check that failed. `good_since`: since when the signal
    has been gone. `idle_since`: in the states `draining` and `verify`, since when the slurmd pod shows no job.
    `due`: when the next step comes if nothing changes. `why`: why the Node came to this state, or what it waits for
    there. `returns`: the last times when the Node came back to service. `past`: the last steps, the oldest first.
    """

    state: State
    at: str
    signal: str = ""
    text: str = ""
    since: str = ""
    cure: str = ""
    closes: bool = False
    reason: str = ""
    boot: str = ""
    run: str = ""
    log: str = ""
    good_since: str = ""
    idle_since: str = ""
    due: str = ""
    why: str = ""
    returns: tuple[str, ...] = ()
    past: tuple[Step, ...] = ()

    @property
    def was_well(self) -> bool:
        """True if the Node was well before its present state, as far as `past` reaches. The state `suspect` is not in
        `past`.
        """
        return len(self.past) < 2 or self.past[-2].state is State.WELL

    @property
    def was_remedied(self) -> bool:
        """True if a remedy was requested since the Node was last well, as far as `past` reaches."""
        since = takewhile(lambda step: step.state is not State.WELL, reversed(self.past))
        return any(step.state is State.REMEDY for step in since)

    @property
    def is_closed(self) -> bool:
        """True if the Node's state is one of `CLOSED`: the node is to get no new job because of its health."""
        return self.state in CLOSED

    def encode(self) -> str:
        """Return the record as JSON, the value of the annotation `sunkpy.dev/health`."""
        return msgspec.json.encode(self).decode()

    def moved(self, state: State, now: datetime, *, why: str = "") -> Record:
        """Return the record in another state. This step is added to `past`, and times that belong to the old state are
        removed.
        """
        at = rfc3339(now)
        step = Step(at=at, state=state, text=(why or self.text)[:_KEPT_TEXT])
        past = (*self.past, step)[-_KEPT_STEPS:]
        return msgspec.structs.replace(
            self, state=state, at=at, why=why, due="", good_since="", idle_since="", past=past
        )

    def returned(self, now: datetime, *, why: str) -> Record:
        """Return the record of a Node that is well again. Only `returns` and `past` are kept, and this return is added
        to both.
        """
        returns = (*self.returns, rfc3339(now))[-_KEPT_RETURNS:]
        past = self.moved(State.WELL, now, why=why).past
        return Record(state=State.WELL, at=rfc3339(now), why=why, returns=returns, past=past)

    def returns_since(self, then: datetime) -> int:
        """Return how often the Node has come back after `then`, as far as `returns` reaches."""
        return sum(time_of(at) > then for at in self.returns)


def read_record(node: Node) -> Record | None:
    """Return the health record of a Node; None if it has none, or if the annotation cannot be read."""
    text = node.annotations.get(names.ANNOTATION_HEALTH)
    if text is None:
        return None
    try:
        record = msgspec.json.decode(text, type=Record)
    except msgspec.MsgspecError:
        return None
    told = filter(None, (record.since, record.good_since, record.idle_since, record.due))
    return record if all(map(is_time, (record.at, *record.returns, *told))) else None


def drain_text(node: Node) -> str | None:
    """Return the health reason for which sunkpy drains this Node's Slurm node; None if sunkpy does not drain it for its
    health.
    """
    record = read_record(node)
    if record is None or not record.is_closed or not record.closes:
        return None
    return f"{record.signal}: {record.text}"


def lifted_reason(node: Node) -> str | None:
    """Return the reason of the drain, set in Slurm by somebody else, that the syncer is to lift now; None if there is
    none.
    """
    record = read_record(node)
    return record.reason if record is not None and record.state is State.RETURNING and record.reason else None


def time_of(at: str) -> datetime:
    """Return a time in a health record as a datetime."""
    return parse_rfc3339(at)


def is_time(text: str) -> bool:
    """True if the text is an RFC 3339 time with a time zone."""
    try:
        return parse_rfc3339(text).tzinfo is not None
    except ValueError:
        return False

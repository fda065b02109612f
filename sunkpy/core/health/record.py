"""Where a Node stands on its way back: the annotation `sunkpy.dev/health`, the one thing that is remembered.

    well ─▶ suspect ─▶ closing ─▶ draining ─▶ drained ─▶ remedy
     ▲         │                     ▲           │           │
     ├─────────┘         (drained by Slurm)      ├───────────┤
     ├── returning ◀── verify ◀── cured ─────────┤           │
     └── a person ◀───── needs-a-person ◀────────┴───────────┘

From any closed state a cured node goes on to `verify` if its NodeSet has a check that has not passed since, then to
`well`, or to `returning` while somebody else's drain is lifted for it. A record is a few hundred bytes: it keeps the
last steps, and the returns of the last days; of a check that failed a kilobyte more.
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
    """Where a Node stands."""

    WELL = "well"  # no signal; the record is its history
    SUSPECT = "suspect"  # a signal, and it is waited whether it lasts; or the cap holds
    CLOSING = "closing"  # its Slurm node is to be drained
    DRAINING = "draining"  # no new job starts, and something still runs
    DRAINED = "drained"  # nothing runs; the cure is waited for
    REMEDY = "remedy"  # an object of its rule's remedy was written; the cure is waited for
    VERIFY = "verify"  # cured; the next start of slurmd checks the machine first
    RETURNING = "returning"  # cured; the drain that others set in Slurm is being lifted
    PERSON = "needs-a-person"  # closed until somebody does something


CLOSED: Final = frozenset({State.CLOSING, State.DRAINING, State.DRAINED, State.REMEDY, State.VERIFY, State.PERSON})
"""The states in which no new job starts on the node."""


class Step(Wire, frozen=True, kw_only=True):
    """The node came to `state` at `at`."""

    at: str
    state: State
    text: str = ""


class Record(Wire, frozen=True, kw_only=True):
    """The value of the annotation. Times in RFC 3339.

    Args:
        at: when it came to `state`. signal: the name of the rule; `text` the evidence; `since` when the signal was
        first seen. cure: what has to happen before it comes back, as the rule says. closes: sunkpy drains the node;
        False if Slurm has drained it. reason: the reason of the drain that others set in Slurm, byte for byte, if that
        drain is the signal. boot: the boot ID of the machine when it was closed. run: the last start of slurmd that
        does not count as a check of the cured machine. log: the last lines of the check that failed. good_since: since
        when the signal has been gone. idle_since: in state `verify`, since when no job runs in the pod that is to be
        replaced. due: when the next step comes by itself, if nothing changes. why: why it needs a person, or why it
        came back. returns: when it came back, only the last few times. past: the last steps, the oldest first.
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
        """True if the node was well before it came to this state."""
        return len(self.past) < 2 or self.past[-2].state is State.WELL

    @property
    def was_remedied(self) -> bool:
        """True if a remedy was asked for since the node was well, as far as is remembered."""
        since = takewhile(lambda step: step.state is not State.WELL, reversed(self.past))
        return any(step.state is State.REMEDY for step in since)

    @property
    def is_closed(self) -> bool:
        """True if no new job starts there because of the signal."""
        return self.state in CLOSED

    def encode(self) -> str:
        """The value of the annotation."""
        return msgspec.json.encode(self).decode()

    def moved(self, state: State, now: datetime, *, why: str = "") -> Record:
        """The record in another state from now on."""
        at = rfc3339(now)
        step = Step(at=at, state=state, text=(why or self.text)[:_KEPT_TEXT])
        past = (*self.past, step)[-_KEPT_STEPS:]
        return msgspec.structs.replace(
            self, state=state, at=at, why=why, due="", good_since="", idle_since="", past=past
        )

    def returned(self, now: datetime, *, why: str) -> Record:
        """The record of a node that is well again: only the history of the signal stays."""
        returns = (*self.returns, rfc3339(now))[-_KEPT_RETURNS:]
        past = self.moved(State.WELL, now, why=why).past
        return Record(state=State.WELL, at=rfc3339(now), why=why, returns=returns, past=past)

    def returns_since(self, then: datetime) -> int:
        """How often the node has come back since then, as far as is remembered."""
        return sum(time_of(at) > then for at in self.returns)


def read_record(node: Node) -> Record | None:
    """The record of a Node. None without one, or if it cannot be read: whoever wipes it ends what it says."""
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
    """Why sunkpy drains the Slurm node of this Node because of its health; None: it does not."""
    record = read_record(node)
    if record is None or not record.is_closed or not record.closes:
        return None
    return f"{record.signal}: {record.text}"


def lifted_reason(node: Node) -> str | None:
    """The reason of somebody else's drain in Slurm that is to be lifted now; None: nothing is."""
    record = read_record(node)
    return record.reason if record is not None and record.state is State.RETURNING and record.reason else None


def time_of(at: str) -> datetime:
    """A time of a record."""
    return parse_rfc3339(at)


def is_time(text: str) -> bool:
    """True if the text can be read as a time of a record."""
    try:
        return parse_rfc3339(text).tzinfo is not None
    except ValueError:
        return False

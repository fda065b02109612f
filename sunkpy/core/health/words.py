"""Puts the health record of a Node into words: the Event of a step, the present state, and what happens next."""

from __future__ import annotations

import msgspec

from sunkpy.core import names
from sunkpy.core.health.decide import FAILED_IDLE, HealthStep
from sunkpy.core.health.record import Record, State
from sunkpy.core.health.rules import Cure
from sunkpy.core.health.verification import FAILED, REQUESTED


class News(msgspec.Struct, frozen=True, kw_only=True):
    """An Event that the operator writes on a Node when its health record changes."""

    reason: str
    note: str
    is_warning: bool = False


def news_of(step: HealthStep, node: str) -> News | None:
    """Return the Event on the Node for this step of its health record; None if the step needs no Event."""
    record = step.after
    if step.is_held and record is not None:
        what = "to be checked" if record.signal == REQUESTED else "sick"
        note = f"{what}, but left open, because too many Nodes are closed for their health: {_evidence(record)}"
        return News(reason="TooManyAtOnce", note=note, is_warning=True)
    if record is None or not step.is_new_state:
        return None
    match record.state:
        case State.CLOSING:
            is_asked = record.signal == REQUESTED
            what = "to be checked" if is_asked else "sick"
            note = f"{what}: {_evidence(record)}. Its Slurm node is drained; jobs end in their own time"
            return News(reason="HealthDrain", note=note, is_warning=not is_asked)
        case State.DRAINING if not record.closes:
            return News(reason="HealthDrain", note=f"sick: {_evidence(record)}", is_warning=True)
        case State.DRAINED:
            note = f"no job runs on the node any more; {what_comes_next(record, node)}"
            return News(reason="HealthDrained", note=note)
        case State.REMEDY:
            return News(reason="HealthRemedy", note=f"{_evidence(record)}; {what_comes_next(record, node)}")
        case State.VERIFY:
            return News(reason="HealthVerify", note=f"{record.why}: {what_comes_next(record, node)}")
        case State.PERSON:
            note = f"{record.why}: {_evidence(record)}. {what_comes_next(record, node)}"
            return News(reason="HealthNeedsPerson", note=note, is_warning=True)
        case State.WELL if step.before is not None and step.before.state is not State.SUSPECT:
            return News(reason="HealthReturned", note=f"takes jobs again: {record.why}")
        case _:
            return None


def standing(record: Record) -> str:
    """Return a line that says in which health state a Node is, since when, and by which evidence."""
    if record.state is State.WELL:
        return f"well since {record.at}: {record.why}" if record.why else f"well since {record.at}"
    why = f" ({record.why})" if record.why else ""
    return f"{record.state} since {record.at}{why}: {_evidence(record)}"


def what_comes_next(record: Record, node: str) -> str:
    """Return a line that says what happens next to the Node by itself, or what a person has to do."""
    match record.state:
        case State.WELL:
            return "nothing"
        case State.SUSPECT:
            if record.due:
                return f"the node is drained at {record.due} if the signal lasts"
            return "the node is drained when fewer Nodes are closed for their health"
        case State.CLOSING:
            return "the syncer drains its Slurm node"
        case State.DRAINING if record.due:
            return f"Slurm has to say that no job is left; if it has not by {record.due}, the node needs a person"
        case State.DRAINING:
            return "the jobs on the node end in their own time"
        case State.RETURNING:
            return "the syncer lifts the drain in Slurm"
        case State.VERIFY:
            asked = f"; if this has not succeeded by {record.due}, the node needs a person" if record.due else ""
            return f"its slurmd pod is replaced, and the next one checks the machine before slurmd starts{asked}"
        case State.PERSON if record.signal == REQUESTED:
            return "the node is checked when Slurm says that it is drained and no job is left"
        case State.PERSON:
            return _by_a_person(record, node)
        case State.DRAINED:
            return _after_the_drain(record)
        case State.REMEDY:
            return f"its remedy is under way; {_after_the_drain(record)}"


def _after_the_drain(record: Record) -> str:
    if record.signal == REQUESTED:
        return "the node is checked next"
    if record.good_since:
        return f"the signal has been gone since {record.good_since}: if it stays away, the node comes back"
    cures = {
        Cure.CLEAR: "when the signal has ended",
        Cure.REBOOT: "when the machine has started again",
    }
    asked = f"; if that is not so by {record.due}, the node needs a person" if record.due else ""
    return f"the node comes back {cures[Cure(record.cure)]}{asked}" if record.cure in cures else "it needs a person"


def _by_a_person(record: Record, node: str) -> str:
    if record.signal == FAILED and record.good_since:
        return f"slurmd has started again: if it stays up from {record.good_since} on, the node comes back"
    if record.signal == FAILED:
        lines = f"the check's last lines: kubectl sunk history {node}"
        may_pass = record.was_well and record.why != FAILED_IDLE
        unless = "Unless the next start of slurmd passes the check: m" if may_pass else "M"
        return f"{lines}. {unless}end the node, then: kubectl sunk verify {node}"
    if not record.closes:
        return "mend the node, then lift the drain in Slurm: scontrol update nodename=… state=resume"
    return f"mend the node, then: kubectl annotate node {node} {names.ANNOTATION_HEALTH}-"


def _evidence(record: Record) -> str:
    return f"{record.signal}: {record.text}"

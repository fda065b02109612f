"""The words about each step, and about what comes next."""

import msgspec
import pytest

from sunkpy.core.health import HealthStep, State
from sunkpy.core.health.verification import FAILED, REQUESTED
from sunkpy.core.health.words import News, news_of, standing, what_comes_next
from tests.unit.core.health.build import NOW, record

MEND = "mend the node, then: kubectl annotate node n1 sunkpy.dev/health-"


def failed(state):
    """Its check failed while it stood there."""
    return msgspec.structs.replace(record(state, "label").moved(state, NOW).moved(State.PERSON, NOW), signal=FAILED)


def told(before, after, **held):
    return news_of(HealthStep(before=before, after=after, **held), "n1")


@pytest.mark.parametrize(
    ("before", "after", "news"),
    [
        (None, record(State.SUSPECT, "deadlock"), None),
        (record(State.SUSPECT, "label"), record(State.CLOSING, "label"),
         News(reason="HealthDrain", is_warning=True,
              note="sick: label: evidence. Its Slurm node is drained; jobs end in their own time")),
        (None, record(State.DRAINING, "kill"),
         News(reason="HealthDrain", is_warning=True, note="sick: kill: evidence")),
        (record(State.CLOSING, "label"), record(State.DRAINING, "label"), None),
        (record(State.DRAINING, "label"), record(State.DRAINED, "label"),
         News(reason="HealthDrained",
              note="no job runs on the node any more; the node comes back when the signal has ended")),
        (record(State.DRAINED, "mend"), record(State.REMEDY, "mend"),
         News(reason="HealthRemedy",
              note="mend: evidence; its remedy is under way; the node comes back when the signal has ended")),
        (record(State.DRAINED, "label"), record(State.PERSON, "label", why="not cured after 60 min"),
         News(reason="HealthNeedsPerson", is_warning=True,
              note=f"not cured after 60 min: label: evidence. {MEND}")),
        (record(State.DRAINED, "label"), record(State.DRAINED, "label").returned(NOW, why="the signal has ended"),
         News(reason="HealthReturned", note="takes jobs again: the signal has ended")),
        (record(State.DRAINED, "label"), record(State.VERIFY, "label", why="cured; it is checked"),
         News(reason="HealthVerify",
              note="cured; it is checked: its slurmd pod is replaced, and the next one checks the machine before "
                   "slurmd starts")),
        (None, msgspec.structs.replace(record(State.CLOSING, "label"), signal=REQUESTED, text="asked for by ann"),
         News(reason="HealthDrain",
              note="to be checked: verify: asked for by ann. Its Slurm node is drained; jobs end in their own time")),
        (record(State.SUSPECT, "label"), None, None),
        (record(State.DRAINED, "label"), record(State.DRAINED, "label", due="later"), None),
    ],
)  # fmt: skip
def test_each_step_that_somebody_should_know_of_is_told_once(before, after, news):
    assert told(before, after) == news


def test_a_sick_node_that_the_cap_leaves_open_is_told():
    suspect = record(State.SUSPECT, "label")
    assert told(suspect, suspect, is_held=True).note == (
        "sick, but left open, because too many Nodes are closed for their health: label: evidence"
    )


@pytest.mark.parametrize(
    ("at", "comes"),
    [
        (record(State.SUSPECT, "deadlock", due="2026-11-28T12:00:50Z"),
         "the node is drained at 2026-11-28T12:00:50Z if the signal lasts"),
        (record(State.SUSPECT, "deadlock"), "the node is drained when fewer Nodes are closed for their health"),
        (record(State.CLOSING, "label"), "the syncer drains its Slurm node"),
        (record(State.DRAINING, "label"), "the jobs on the node end in their own time"),
        (record(State.DRAINING, "label", due="2026-11-28T13:00:00Z"),
         "Slurm has to say that no job is left; if it has not by 2026-11-28T13:00:00Z, the node needs a person"),
        (record(State.DRAINED, "label", due="2026-11-28T13:00:00Z"),
         "the node comes back when the signal has ended; if that is not so by 2026-11-28T13:00:00Z, the node needs a "
         "person"),
        (record(State.DRAINED, "kill"), "the node comes back when the machine has started again"),
        (record(State.DRAINED, "fan"), "it needs a person"),
        (record(State.DRAINED, "label", good_since="2026-11-28T12:00:00Z"),
         "the signal has been gone since 2026-11-28T12:00:00Z: if it stays away, the node comes back"),
        (record(State.REMEDY, "mend", due="2026-11-28T12:30:00Z"),
         "its remedy is under way; the node comes back when the signal has ended; if that is "
         "not so by 2026-11-28T12:30:00Z, the node needs a person"),
        (record(State.RETURNING, "kill"), "the syncer lifts the drain in Slurm"),
        (record(State.VERIFY, "label", due="2026-11-28T13:00:00Z"),
         "its slurmd pod is replaced, and the next one checks the machine before slurmd starts; if this has "
         "not succeeded by 2026-11-28T13:00:00Z, the node needs a person"),
        (failed(State.VERIFY),
         "the check's last lines: kubectl sunk history n1. Mend the node, then: kubectl sunk verify n1"),
        (failed(State.WELL),
         "the check's last lines: kubectl sunk history n1. Unless the next start of slurmd passes the "
         "check: mend the node, then: kubectl sunk verify n1"),
        (msgspec.structs.replace(failed(State.WELL), good_since="2026-11-28T12:00:00Z"),
         "slurmd has started again: if it stays up from 2026-11-28T12:00:00Z on, the node comes back"),
        (msgspec.structs.replace(record(State.DRAINED, "label"), signal=REQUESTED), "the node is checked next"),
        (record(State.PERSON, "label"), MEND),
        (record(State.PERSON, "prolog"), (
            "mend the node, then lift the drain in Slurm: scontrol update nodename=… "
            "state=resume"
        )),
        (record(State.DRAINED, "label").returned(NOW, why="cured"), "nothing"),
    ],
)  # fmt: skip
def test_what_comes_next(at, comes):
    assert what_comes_next(at, "n1") == comes


def test_where_a_node_stands():
    assert standing(record(State.PERSON, "label", why="not cured after 60 min")) == (
        "needs-a-person since 2026-11-28T12:00:00Z (not cured after 60 min): label: evidence"
    )
    assert (
        standing(record(State.DRAINED, "label").returned(NOW, why="cured")) == "well since 2026-11-28T12:00:00Z: cured"
    )

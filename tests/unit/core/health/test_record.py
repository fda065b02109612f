"""The annotation: what it says, who may wipe it, and that it stays small."""

from datetime import timedelta

import pytest

from sunkpy.core import names
from sunkpy.core.health import State, drain_text, lifted_reason, read_record
from sunkpy.core.health.record import CLOSED
from tests.unit.core.health.build import NOW, node, record


def test_a_record_is_read_as_it_was_written():
    written = record(State.DRAINED, "label").moved(State.PERSON, NOW, why="not cured after 60 min")
    assert read_record(node(record=written)) == written


@pytest.mark.parametrize(
    "text", ["", "off", "{}", '{"state": "ill", "at": "2026-11-28T12:00:00Z"}', '{"state": "drained", "at": "soon"}',
             '{"state": "drained", "at": "2026-11-28T12:00:00"}'],
)  # fmt: skip
def test_what_is_no_record_ends_what_it_said(text):
    wiped = node(annotations={names.ANNOTATION_HEALTH: text})
    assert read_record(wiped) is drain_text(wiped) is lifted_reason(wiped) is None


@pytest.mark.parametrize("state", State)
def test_sunkpy_drains_in_closed_states_only_and_not_what_slurm_has_drained(state):
    ours, slurms = record(state, "label"), record(state, "kill", reason="Kill task failed")
    assert drain_text(node(record=ours)) == ("label: evidence" if state in CLOSED else None)
    assert drain_text(node(record=slurms)) is None
    assert lifted_reason(node(record=slurms)) == ("Kill task failed" if state is State.RETURNING else None)
    assert lifted_reason(node(record=ours)) is None


def test_a_record_stays_small_however_often_it_changes():
    long = record(State.SUSPECT, "label", text="x" * 300)
    for day in range(50):
        for state in (State.CLOSING, State.DRAINING, State.DRAINED, State.PERSON):
            long = long.moved(state, NOW + timedelta(days=day), why="y" * 300)
        long = long.returned(NOW + timedelta(days=day), why="cured")
    assert len(long.encode()) < 4096
    assert long.returns_since(NOW + timedelta(days=48)) == 1

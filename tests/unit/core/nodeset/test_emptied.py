"""Whether the syncer has said lately that nothing runs on a node that was drained for its health."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.health import Record, State
from sunkpy.core.model.objects import Condition, Meta, Node, Pod, PodStatus
from sunkpy.core.model.times import rfc3339
from sunkpy.core.nodeset.emptied import is_answered, token_of_question

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
SINCE = "2026-11-28T11:00:00Z"
ASKED = f"{SINCE}/health"
IDLE = {names.CONDITION_DRAIN: "True", names.CONDITION_RUNNING: "False"}


def node(state: State | None) -> Node:
    record = Record(state=state, at=rfc3339(NOW), signal="fan", since=SINCE) if state is not None else None
    notes = {names.ANNOTATION_HEALTH: record.encode()} if record is not None else {}
    return Node(metadata=Meta(name="n1", annotations=notes))


def pod(receipt: str = ASKED, *, ago_s: float = 5, conditions: dict[str, str] = IDLE) -> Pod:
    at = rfc3339(NOW - timedelta(seconds=ago_s))
    notes = {names.ANNOTATION_DRAINED: receipt, names.ANNOTATION_DRAINED_AT: at}
    told = tuple(Condition(type=type_, status=status) for type_, status in conditions.items())
    return Pod(metadata=Meta(name="gpu-1", annotations=notes), status=PodStatus(conditions=told))


@pytest.mark.parametrize(
    ("state", "asked"),
    [(None, None), (State.CLOSING, None), (State.DRAINING, ASKED), (State.DRAINED, ASKED), (State.REMEDY, ASKED),
     (State.PERSON, ASKED), (State.WELL, None)],
)  # fmt: skip
def test_it_is_asked_about_a_node_on_which_no_job_should_start(state: State | None, asked: str | None) -> None:
    assert token_of_question(node(state)) == asked


@pytest.mark.parametrize(
    ("told", "is_answer"),
    [
        pytest.param(pod(), True, id="answered"),
        pytest.param(pod(ago_s=31), False, id="half a minute ago"),
        pytest.param(pod("2026-11-28T10:00:00Z/health"), False, id="of the time before"),
        pytest.param(pod("2026-11-28T11:00:00Z/scale-down"), False, id="of a removal"),
        pytest.param(pod(conditions={**IDLE, names.CONDITION_RUNNING: "Unknown"}), False, id="Slurm cannot be read"),
        pytest.param(pod(conditions={**IDLE, names.CONDITION_DRAIN: "False"}), False, id="open"),
        pytest.param(msgspec.structs.replace(pod(), metadata=Meta(name="gpu-1")), False, id="not yet"),
    ],
)
def test_only_the_answer_of_the_last_seconds_counts(told: Pod, is_answer: bool) -> None:
    assert is_answered(node(State.DRAINED), told, NOW) is is_answer


def test_the_answer_to_the_pods_removal_counts_while_it_is_to_go() -> None:
    removal = "2026-11-28T11:30:00Z/rollout"
    notes = {names.ANNOTATION_PENDING_DELETION: removal}

    def marked(receipt: str) -> Pod:
        made = pod(receipt)
        meta = msgspec.structs.replace(made.metadata, annotations={**made.annotations, **notes})
        return msgspec.structs.replace(made, metadata=meta)

    assert is_answered(node(State.DRAINING), marked(removal), NOW)
    assert not is_answered(node(State.DRAINING), marked(ASKED), NOW), "it is of before the mark"
    assert not is_answered(node(State.WELL), marked(removal), NOW)


def test_without_a_question_there_is_no_answer() -> None:
    assert not is_answered(node(State.CLOSING), pod(), NOW)

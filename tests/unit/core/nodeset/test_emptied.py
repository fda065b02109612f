"""Whether the syncer has said lately that nothing runs on a node that was drained for its health."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.health import Record, State
from sunkpy.core.model.objects import Condition, Meta, Node, NodeStatus, Pod, PodSpec, PodStatus
from sunkpy.core.model.times import rfc3339
from sunkpy.core.nodeset.emptied import is_answered, is_empty, token_of_question

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
SINCE = "2026-11-28T11:00:00Z"
ASKED = f"{SINCE}/health"
IDLE = {names.CONDITION_DRAIN: "True", names.CONDITION_RUNNING: "False"}


def node(state: State | None, ready: str = "True", since_s: float = 300) -> Node:
    record = Record(state=state, at=rfc3339(NOW), signal="fan", since=SINCE) if state is not None else None
    notes = {names.ANNOTATION_HEALTH: record.encode()} if record is not None else {}
    since = rfc3339(NOW - timedelta(seconds=since_s))
    return Node(
        metadata=Meta(name="n1", annotations=notes),
        status=NodeStatus(conditions=(Condition(type="Ready", status=ready, last_transition_time=since),)),
    )


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


def of_a_job(**meta: str) -> Pod:
    return Pod(metadata=Meta(name="web-1", annotations={names.ANNOTATION_JOB_ID: "7"}, **meta))


@pytest.mark.parametrize(
    ("occupants", "empty"),
    [
        pytest.param([], True, id="nothing else"),
        pytest.param([Pod(metadata=Meta(name="daemon"))], True, id="of no job"),
        pytest.param([of_a_job()], False, id="of a job that Slurm has given up"),
        pytest.param([of_a_job(deletion_timestamp="2026-11-28T12:00:01Z")], False, id="it ends"),
        pytest.param([of_a_job(deletion_timestamp="2026-11-28T12:00:00Z")], True, id="on a dead machine"),
        pytest.param([msgspec.structs.replace(of_a_job(), status=PodStatus(phase="Failed"))], True, id="it has ended"),
    ],
)
@pytest.mark.parametrize("slurmd", [pod(), None], ids=["answered", "no slurmd"])
def test_a_node_is_not_empty_while_a_pod_of_a_job_has_time_to_end(
    slurmd: Pod | None, occupants: list[Pod], empty: bool
) -> None:
    assert is_empty(node(State.DRAINED), slurmd, occupants, NOW) is empty
    assert not is_empty(node(State.DRAINED), pod(ago_s=31), occupants, NOW)


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_on_a_dead_machine_nobody_would_report_the_end_of_a_pod(ready: str) -> None:
    assert is_empty(node(State.DRAINED, ready), pod(), [of_a_job()], NOW)
    assert not is_empty(node(State.DRAINED, ready, since_s=299), pod(), [of_a_job()], NOW), "a kubelet starts again"


def test_an_annotation_on_somebodys_pod_of_another_scheduler_holds_up_no_repair() -> None:
    foreign = msgspec.structs.replace(of_a_job(), spec=PodSpec(scheduler_name="default-scheduler"))
    assert is_empty(node(State.DRAINED), pod(), [foreign], NOW)


def test_without_a_question_there_is_no_answer() -> None:
    assert not is_answered(node(State.CLOSING), pod(), NOW)

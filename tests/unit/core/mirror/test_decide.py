from datetime import UTC, datetime

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.mirror import (
    ClearReason,
    Decision,
    DeleteSlurmNode,
    DrainNode,
    LiftDrain,
    MirrorMemory,
    PatchPod,
    RestoreDrain,
    ResumeNode,
    SetAddress,
    SetComment,
    SetTopology,
    UndrainNode,
    after_writing,
    decide_mirror,
    lifted_too,
    still_holds,
)
from sunkpy.core.mirror.decide import (
    ACT_WITHIN_S,
    FOREIGN_DRAIN_KEPT_S,
    JOB_STATE_HELD_S,
    JOB_STATE_PER_S,
    RENEW_RECEIPT_S,
    SILENCE_GRACE_S,
    STALE_AFTER_S,
    job_state_held_s,
)
from sunkpy.core.mirror.drain_cause import UNREADY_GRACE_S
from sunkpy.core.model.objects import Condition, Pod
from sunkpy.core.model.states import SlurmNode
from tests.unit.core.mirror.build import (
    IP,
    NOW_S,
    OLD_IP,
    STARTED,
    STARTED_S,
    TOKEN,
    make_comment,
    make_node,
    make_pod,
    make_view,
)

OURS, THEIRS = "k8s: cordon: disk", "bad gpu"
REBOOTED = "Node unexpectedly rebooted"


def to_slurm(decision: Decision) -> list[object]:
    return [action for action in decision.actions if not isinstance(action, PatchPod)]


def kinds(decision: Decision) -> list[str]:
    return [type(action).__name__ for action in to_slurm(decision)]


def conditions(decision: Decision) -> dict[str, str]:
    return {c.type: c.status for a in decision.actions if isinstance(a, PatchPod) for c in a.conditions}


def annotations(decision: Decision) -> dict[str, str | None]:
    return {k: v for a in decision.actions if isinstance(a, PatchPod) for k, v in a.annotations.items()}


def decide_twice(pod: Pod | None, node: SlurmNode | None, *, memory: MirrorMemory | None = None) -> Decision:
    """Decide with two answers of Slurm that agree."""
    first = decide_mirror(make_view(pod, node, memory=memory), NOW_S)
    return decide_mirror(make_view(pod, node, number=2, memory=first.memory), NOW_S)


@pytest.mark.parametrize(
    ("pod", "node", "expected"),
    [
        pytest.param(make_pod(), make_node(), [], id="all is well"),
        pytest.param(make_pod(cordon="disk"), make_node(), [("DrainNode", OURS)], id="cordoned"),
        pytest.param(make_pod(cordon=""), make_node(), [("DrainNode", "k8s: cordon")], id="cordoned without a reason"),
        pytest.param(make_pod(cordon="disk"), make_node("IDLE+DRAIN", reason=OURS), [], id="cordoned and drained"),
        pytest.param(
            make_pod(cordon="fan"),
            make_node("IDLE+DRAIN", reason=OURS),
            [("DrainNode", "k8s: cordon: fan")],
            id="another cause of ours replaces the reason",
        ),
        pytest.param(make_pod(cordon="x"), make_node("IDLE+DRAIN", reason=THEIRS), [], id="a foreign reason stays"),
        pytest.param(make_pod(), make_node("IDLE+DRAIN", reason=THEIRS), [], id="a foreign drain is never lifted"),
        pytest.param(make_pod(), make_node("IDLE+DRAIN", reason=""), [], id="a drain without reason is foreign"),
        pytest.param(make_pod(cordon="x"), make_node("IDLE+FAIL", reason=THEIRS), [], id="a foreign FAIL stays"),
        pytest.param(make_pod(cordon="x"), make_node("DOWN", reason=THEIRS), [], id="a foreign DOWN stays"),
        pytest.param(make_pod(), make_node("DOWN+DRAIN", reason=THEIRS), [], id="DOWN over our drain is theirs"),
        pytest.param(
            make_pod(cordon="disk"),
            make_node("DOWN+NOT_RESPONDING", reason="Not responding"),
            [("DrainNode", OURS)],
            id="a silent slurmd is nobody's hold",
        ),
        pytest.param(
            make_pod(), make_node("DOWN+DRAIN", reason=OURS), [("UndrainNode", "")], id="nor blocks the lifting"
        ),
        pytest.param(None, make_node("DOWN", reason=THEIRS), [], id="pod gone, DOWN by others: the reason stays"),
        pytest.param(make_pod(), make_node("IDLE+DRAIN", reason=OURS), [("UndrainNode", "")], id="uncordoned"),
        pytest.param(
            make_pod(), make_node("MIXED+DRAIN", reason=OURS), [("UndrainNode", "")], id="uncordoned while busy"
        ),
        pytest.param(
            make_pod(), make_node("DOWN+DRAIN", reason=OURS), [("UndrainNode", "")], id="down: first the drain goes"
        ),
        pytest.param(make_pod(), make_node("DOWN"), [("ResumeNode", "")], id="then the node is returned"),
        pytest.param(
            make_pod(), make_node("DOWN", reason=REBOOTED), [("ResumeNode", REBOOTED)], id="booted unannounced"
        ),
        pytest.param(
            make_pod(cordon="disk"), make_node("DOWN", reason=REBOOTED), [("DrainNode", OURS)], id="and cordoned"
        ),
        pytest.param(
            make_pod(), make_node("DOWN+NOT_RESPONDING", reason="Not responding"), [], id="its slurmd is still away"
        ),
        pytest.param(make_pod(), make_node("DOWN", reason="Not responding"), [], id="Slurm itself returns it"),
        pytest.param(
            make_pod(),
            make_node("DOWN", reason=": Not responding"),
            [("ResumeNode", ": Not responding")],
            id="but not after a blank",
        ),
        pytest.param(make_pod(ready=False), make_node("DOWN", reason=REBOOTED), [], id="its pod is still starting"),
        pytest.param(make_pod(), make_node("DOWN", reason=THEIRS), [], id="a person has set DOWN"),
        pytest.param(
            make_pod(), make_node("DOWN+DRAIN", reason=REBOOTED), [], id="drained by others with the words of Slurm"
        ),
        pytest.param(
            make_pod(), make_node("DOWN+INVALID_REG", reason=REBOOTED), [], id="its machine is not as promised"
        ),
        pytest.param(
            make_pod(annotations={names.ANNOTATION_HEALTH_DRAIN: "label: bad"}),
            make_node("MIXED"),
            [("DrainNode", "k8s: health: label: bad")],
            id="a sick Node",
        ),
        pytest.param(
            make_pod(annotations={names.ANNOTATION_HEALTH_DRAIN: "label: bad"}),
            make_node("IDLE+DRAIN", reason=THEIRS),
            [],
            id="a sick Node that a person has drained",
        ),
        pytest.param(
            make_pod(annotations={names.ANNOTATION_HEALTH_LIFT: THEIRS}),
            make_node("IDLE+DRAIN", reason=THEIRS),
            [("LiftDrain", THEIRS)],
            id="with leave",
        ),
        pytest.param(
            make_pod(annotations={names.ANNOTATION_HEALTH_LIFT: THEIRS}),
            make_node("IDLE+DRAIN", reason=THEIRS + "!"),
            [],
            id="leave for another reason",
        ),
        pytest.param(
            make_pod(cordon="disk", annotations={names.ANNOTATION_HEALTH_LIFT: THEIRS}),
            make_node("IDLE+DRAIN", reason=THEIRS),
            [],
            id="leave, and a cordon",
        ),
        pytest.param(
            make_pod(annotations={names.ANNOTATION_HEALTH_LIFT: THEIRS}),
            make_node("IDLE+FAIL", reason=THEIRS),
            [],
            id="leave is for a drain alone",
        ),
        pytest.param(
            make_pod(ready=False), make_node("IDLE+DRAIN", reason=OURS), [], id="lifted only when slurmd is ready"
        ),
        pytest.param(
            make_pod(pending=TOKEN),
            make_node("ALLOCATED"),
            [("DrainNode", "k8s: pod pending deletion: scale-down")],
            id="pending deletion drains a busy node",
        ),
        pytest.param(
            make_pod(pending=TOKEN, cordon="x"),
            make_node(),
            [("DrainNode", "k8s: pod pending deletion: scale-down")],
            id="deletion is the stronger cause",
        ),
        pytest.param(
            make_pod(deleting=True), make_node(), [("DrainNode", "k8s: pod pending deletion: deleted")], id="deleted"
        ),
        pytest.param(
            make_pod(phase="Failed", ready=False), make_node(), [("DrainNode", "k8s: pod not ready")], id="failed"
        ),
        pytest.param(make_pod(ready=False), make_node(), [], id="unready for a moment"),
        pytest.param(None, make_node(), [("DrainNode", "k8s: pod gone")], id="pod gone"),
        pytest.param(None, make_node(comment=""), [], id="not ours: no comment"),
        pytest.param(None, make_node(comment="rack 7"), [], id="not ours: another comment"),
        pytest.param(None, make_node(comment=make_comment(namespace="b")), [], id="not ours: another namespace"),
        pytest.param(make_pod(cordon="x"), make_node("FUTURE"), [], id="a node that does not exist yet"),
        pytest.param(make_pod(cordon="x"), None, [], id="no such node"),
    ],
)  # fmt: skip
def test_one_look(pod: Pod | None, node: SlurmNode | None, expected: list[tuple[str, str]]) -> None:
    actions = to_slurm(decide_mirror(make_view(pod, node), NOW_S))
    assert [(type(action).__name__, getattr(action, "reason", "")) for action in actions] == expected


@pytest.mark.parametrize("text", ["disk ", " a\n b\t", "x" * 1000, "x" * 199 + " y", " "])
def test_a_reason_is_written_as_slurm_gives_it_back(text: str) -> None:
    (drain,) = to_slurm(decide_mirror(make_view(make_pod(cordon=text), make_node()), NOW_S))
    assert isinstance(drain, DrainNode)
    assert drain.reason == " ".join(drain.reason.split())
    assert len(drain.reason) < 256
    drained = make_node("IDLE+DRAIN", reason=drain.reason)
    assert kinds(decide_mirror(make_view(make_pod(cordon=text), drained), NOW_S)) == []


@pytest.mark.parametrize(
    ("comment", "is_written"),
    [
        pytest.param("", True, id="none yet"),
        pytest.param(make_comment(uid="uid-0"), True, id="of the pod before"),
        pytest.param(make_comment(), False, id="right already"),
        pytest.param("rack 7, ask ann", False, id="somebody else's words"),
    ],
)
def test_a_node_gets_the_comment_of_its_pod(comment: str, is_written: bool) -> None:
    decision = decide_mirror(make_view(make_pod(), make_node(comment=comment)), NOW_S)
    assert ("SetComment" in kinds(decision)) == is_written
    if is_written:
        assert to_slurm(decision)[0].comment == make_comment()


def test_a_node_that_has_not_registered_gets_no_comment() -> None:
    assert kinds(decide_mirror(make_view(make_pod(), make_node("FUTURE", comment="")), NOW_S)) == []


# ------------------------------------------------------------------------------------------------ safe deletion


def test_drained_is_said_after_two_answers() -> None:
    pod, node = make_pod(pending=TOKEN), make_node("IDLE+DRAIN", reason="k8s: pod pending deletion: scale-down")
    first = decide_mirror(make_view(pod, node), NOW_S)
    assert first.wants_next_answer
    assert names.ANNOTATION_DRAINED not in annotations(first)
    second = decide_mirror(make_view(pod, node, number=2, memory=first.memory), NOW_S)
    assert annotations(second)[names.ANNOTATION_DRAINED] == TOKEN


def test_who_asks_whether_a_node_is_drained_is_answered_as_a_removal_is() -> None:
    node, asked = make_node("IDLE+DRAIN", reason=THEIRS), {names.ANNOTATION_DRAIN_ASKED: "7/health"}
    decision = decide_twice(make_pod(annotations={**asked, names.ANNOTATION_HEALTH_DRAIN: "sick"}), node)
    assert annotations(decision)[names.ANNOTATION_DRAINED] == "7/health"
    assert [a.receipt_age_s for a in decision.actions if isinstance(a, PatchPod)] == [0.0]
    removed = decide_twice(make_pod(pending=TOKEN, annotations=asked), node)
    assert annotations(removed)[names.ANNOTATION_DRAINED] == TOKEN, "the receipt of a removal comes first"


def test_an_answer_from_before_a_write_proves_nothing_after_it() -> None:
    pod, node = make_pod(pending=TOKEN), make_node("IDLE+DRAIN", reason="k8s: cordon: x")
    first = decide_mirror(make_view(pod, node), NOW_S)
    assert [type(action) for action in to_slurm(first)] == [DrainNode]
    drained = make_node("IDLE+DRAIN", reason="k8s: pod pending deletion: scale-down")
    memory = after_writing(first.memory, first.actions, NOW_S)
    second = decide_mirror(make_view(pod, drained, number=2, now_s=NOW_S + 1, memory=memory), NOW_S + 1)
    assert names.ANNOTATION_DRAINED not in annotations(second)
    third = decide_mirror(make_view(pod, drained, number=3, now_s=NOW_S + 2, memory=second.memory), NOW_S + 2)
    assert annotations(third)[names.ANNOTATION_DRAINED] == TOKEN


def test_the_same_answer_looked_at_twice_proves_nothing() -> None:
    pod, node = make_pod(pending=TOKEN), make_node("IDLE+DRAIN", reason="k8s: x")
    first = decide_mirror(make_view(pod, node), NOW_S)
    again = decide_mirror(make_view(pod, node, memory=first.memory), NOW_S)
    assert names.ANNOTATION_DRAINED not in annotations(again)


@pytest.mark.parametrize(
    "node",
    [
        make_node("ALLOCATED+DRAIN", reason="k8s: x"),
        make_node("MIXED+DRAIN", reason="k8s: x"),
        make_node("IDLE+COMPLETING+DRAIN", reason="k8s: x"),
        make_node("IDLE+DRAIN", reason="k8s: x", alloc_cpus=1),
        make_node("DOWN+DRAIN", reason="k8s: x", alloc_cpus=1),
        make_node("IDLE"),
    ],
    ids=lambda node: f"{node.state_text}/{node.alloc_cpus}",
)
def test_a_busy_or_open_node_is_never_said_to_be_drained(node: SlurmNode) -> None:
    assert names.ANNOTATION_DRAINED not in annotations(decide_twice(make_pod(pending=TOKEN), node))


def test_a_job_between_two_answers_starts_the_proof_anew() -> None:
    pod = make_pod(pending=TOKEN)
    idle, busy = make_node("IDLE+DRAIN", reason="k8s: x"), make_node("MIXED+DRAIN", reason="k8s: x")
    memory = MirrorMemory()
    for number, node in enumerate([idle, busy, idle], start=1):
        decision = decide_mirror(make_view(pod, node, number=number, memory=memory), NOW_S)
        assert names.ANNOTATION_DRAINED not in annotations(decision)
        memory = decision.memory


def test_a_new_token_needs_a_new_proof() -> None:
    node = make_node("IDLE+DRAIN", reason="k8s: x")
    proved = decide_twice(make_pod(pending=TOKEN), node)
    pod = make_pod(pending="2026-11-22T00:00:00Z/rollout", annotations={names.ANNOTATION_DRAINED: TOKEN})
    decision = decide_mirror(make_view(pod, node, number=3, memory=proved.memory), NOW_S)
    assert annotations(decision)[names.ANNOTATION_DRAINED] is None


def test_drained_is_taken_back_when_it_is_no_longer_so() -> None:
    pod = make_pod(pending=TOKEN, annotations={names.ANNOTATION_DRAINED: TOKEN})
    assert annotations(decide_mirror(make_view(pod, make_node("IDLE")), NOW_S))[names.ANNOTATION_DRAINED] is None


def test_a_cancelled_deletion_takes_drained_back_and_lifts_the_drain() -> None:
    pod = make_pod(annotations={names.ANNOTATION_DRAINED: TOKEN})
    decision = decide_mirror(make_view(pod, make_node("IDLE+DRAIN", reason="k8s: pod pending deletion: x")), NOW_S)
    assert annotations(decision)[names.ANNOTATION_DRAINED] is None
    assert kinds(decision) == ["UndrainNode"]


def test_a_pod_without_a_slurm_node_may_go_after_two_answers() -> None:
    assert annotations(decide_twice(make_pod(pending=TOKEN), None))[names.ANNOTATION_DRAINED] == TOKEN


def test_a_foreign_drain_serves_safe_deletion_too() -> None:
    decision = decide_twice(make_pod(pending=TOKEN), make_node("IDLE+DRAIN", reason=THEIRS))
    assert annotations(decision)[names.ANNOTATION_DRAINED] == TOKEN
    assert kinds(decision) == []


def test_a_receipt_that_stands_is_renewed_now_and_then() -> None:
    node = make_node("IDLE+DRAIN", reason="k8s: pod pending deletion: scale-down")
    first = decide_twice(make_pod(pending=TOKEN), node)
    assert [a.renews_receipt for a in first.actions if isinstance(a, PatchPod)] == [True]
    told = {k: v for k, v in annotations(first).items() if v is not None} | {names.ANNOTATION_DRAINED_AT: "then"}
    pod = make_pod(pending=TOKEN, annotations=told)
    patch = next(a for a in first.actions if isinstance(a, PatchPod))
    conditions = pod.status.conditions + patch.conditions
    pod = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=conditions))
    soon = decide_mirror(make_view(pod, node, number=3, memory=first.memory), NOW_S)
    assert soon.actions == ()
    assert soon.again_s == RENEW_RECEIPT_S
    later_s = NOW_S + RENEW_RECEIPT_S
    later = decide_mirror(make_view(pod, node, number=4, memory=soon.memory, now_s=later_s), later_s)
    assert later.actions == (PatchPod(pod=pod, annotations={}, conditions=(), receipt_age_s=0.0),)


def test_a_receipt_is_as_old_as_slurms_word() -> None:
    pod, node = make_pod(pending=TOKEN), make_node("IDLE+DRAIN", reason="k8s: pod pending deletion: scale-down")
    first = decide_mirror(make_view(pod, node, age_s=4.0), NOW_S)
    second = decide_mirror(make_view(pod, node, number=2, memory=first.memory, age_s=3.0), NOW_S)
    assert [a.receipt_age_s for a in second.actions if isinstance(a, PatchPod)] == [3.0]


# ---------------------------------------------------------------------------------------------- drains that Slurm lost


REMEMBERED = {names.ANNOTATION_DRAIN: THEIRS}


def test_a_slurm_node_that_is_not_there_says_nothing_of_its_machine() -> None:
    pod = make_pod(annotations=REMEMBERED)
    decision = decide_mirror(make_view(pod, None), NOW_S)
    assert names.CONDITION_CORDON not in conditions(decision)
    assert names.ANNOTATION_DRAIN not in annotations(decision)
    without = decide_mirror(make_view(make_pod(), None), NOW_S)
    assert conditions(without)[names.CONDITION_CORDON] == "Unknown"


@pytest.mark.parametrize("unreadable", [False, True], ids=["at once", "after an outage"])
def test_a_drain_that_slurm_lost_is_put_back_as_it_stood(unreadable: bool) -> None:
    pod = make_pod(annotations=REMEMBERED)
    if unreadable:
        assert names.ANNOTATION_DRAIN not in annotations(decide_mirror(make_view(pod, None, trusted=False), NOW_S))
    decision = decide_mirror(make_view(pod, make_node(comment="")), NOW_S)
    assert kinds(decision) == ["RestoreDrain", "SetComment"]
    assert to_slurm(decision)[0].reason == THEIRS
    assert names.CONDITION_CORDON not in conditions(decision)


@pytest.mark.parametrize(
    ("remembered", "node"),
    [
        pytest.param({}, make_node(comment=""), id="nothing was known"),
        pytest.param({names.ANNOTATION_DRAIN: OURS}, make_node(comment=""), id="it was ours"),
        pytest.param(REMEMBERED, make_node(), id="the record is the old one: it was lifted"),
        pytest.param(REMEMBERED, make_node("IDLE+DRAIN", reason="worse", comment=""), id="drained already"),
    ],
)
def test_only_what_was_lost_is_put_back(remembered: dict[str, str], node: SlurmNode) -> None:
    assert "RestoreDrain" not in kinds(decide_mirror(make_view(make_pod(annotations=remembered), node), NOW_S))


# ---------------------------------------------------------------------------------- a node that changed since the poll


@pytest.mark.parametrize(
    ("action", "node", "holds"),
    [
        (DrainNode(name="n", reason=OURS, is_announced=True), make_node(), True),
        (DrainNode(name="n", reason=OURS, is_announced=True), make_node("DOWN", reason="Not responding"), True),
        (DrainNode(name="n", reason=OURS, is_announced=True), make_node("IDLE+DRAIN", reason=THEIRS), False),
        (DrainNode(name="n", reason=OURS, is_announced=True), make_node("IDLE+FAIL", reason=THEIRS), False),
        (DrainNode(name="n", reason=OURS, is_announced=True), make_node("DOWN", reason=THEIRS), False),
        (DrainNode(name="n", reason=OURS, is_announced=True), make_node("IDLE+DRAIN", reason=OURS), False),
        (UndrainNode(name="n", pod=make_pod()), make_node("IDLE+DRAIN", reason=OURS), True),
        (UndrainNode(name="n", pod=make_pod()), make_node("IDLE+DRAIN", reason=THEIRS), False),
        (UndrainNode(name="n", pod=make_pod()), make_node(), False),
        (LiftDrain(name="n", reason=THEIRS, pod=make_pod()), make_node("IDLE+DRAIN", reason=THEIRS), True),
        (LiftDrain(name="n", reason=THEIRS, pod=make_pod()), make_node("IDLE+DRAIN", reason="worse"), False),
        (LiftDrain(name="n", reason=OURS, pod=make_pod()), make_node("IDLE+DRAIN", reason=OURS), False),
        (ResumeNode(name="n", pod=make_pod(), reason=REBOOTED), make_node("DOWN", reason=REBOOTED), True),
        (ResumeNode(name="n", pod=make_pod(), reason=REBOOTED), make_node("DOWN", reason=THEIRS), False),
        (ResumeNode(name="n", pod=make_pod(), reason=REBOOTED), make_node("DOWN+DRAIN", reason=THEIRS), False),
        (ResumeNode(name="n", pod=make_pod(), reason=REBOOTED), make_node(), False),
        (ClearReason(name="n"), make_node("IDLE", reason=OURS), True),
        (ClearReason(name="n"), make_node("IDLE", reason=THEIRS), False),
        (ClearReason(name="n"), make_node("IDLE+DRAIN", reason=OURS), False),
        (ClearReason(name="n"), make_node("IDLE+FAIL", reason=OURS), False),
        (ClearReason(name="n"), make_node("DOWN", reason=OURS), False),
        (RestoreDrain(name="n", reason=THEIRS), make_node(), True),
        (RestoreDrain(name="n", reason=THEIRS), make_node("IDLE+DRAIN", reason="worse"), False),
        (SetComment(name="n", comment="{}"), make_node(comment=""), True),
        (SetComment(name="n", comment="{}"), make_node(comment="rack 7"), False),
        (SetAddress(name="n", address=IP), make_node("DOWN+NOT_RESPONDING", address=OLD_IP), True),
        (SetAddress(name="n", address=IP), make_node("IDLE", address=OLD_IP), False),
        (SetAddress(name="n", address=IP), make_node("DOWN+NOT_RESPONDING"), False),
        (SetTopology(name="n", topology="tree:all:l1"), make_node(), True),
        (SetTopology(name="n", topology="tree:all:l1"), make_node(topology="tree:all:l1"), False),
        (SetTopology(name="n", topology="tree:all:l1"), make_node("INVALID_REG"), False),
        (DeleteSlurmNode(name="n", reason=OURS, is_announced=True), make_node("IDLE+DRAIN", reason=OURS), True),
        (DeleteSlurmNode(name="n", reason=OURS, is_announced=True), make_node("MIXED+DRAIN", reason=OURS), False),
        (DeleteSlurmNode(name="n", reason=OURS, is_announced=True), make_node("IDLE+DRAIN", reason=THEIRS), False),
        (DeleteSlurmNode(name="n", reason=OURS, is_announced=True), make_node(), False),
    ],
)
def test_nobody_elses_word_of_this_moment_is_overwritten(action, node: SlurmNode, holds: bool) -> None:
    assert still_holds(action, node) is holds


@pytest.mark.parametrize(
    ("pod", "node", "is_cleared"),
    [
        pytest.param(make_pod(), make_node("IDLE", reason=OURS), True, id="a lift was cut off"),
        pytest.param(make_pod(), make_node("MIXED", reason=OURS), True, id="with a job"),
        pytest.param(make_pod(), make_node("IDLE", reason=THEIRS), False, id="a note of somebody"),
        pytest.param(make_pod(cordon="disk"), make_node("IDLE", reason=OURS), False, id="it is drained anew"),
        pytest.param(make_pod(), make_node("DOWN", reason=OURS), False, id="it is resumed first"),
    ],
)
def test_a_reason_that_a_lift_left_is_removed(pod, node: SlurmNode, is_cleared: bool) -> None:
    """slurmctld keeps a reason that a node has when it drains the node by itself."""
    actions = to_slurm(decide_mirror(make_view(pod, node), NOW_S))
    assert [action for action in actions if isinstance(action, ClearReason)] == [
        ClearReason(name=node.name)
    ] * is_cleared


@pytest.mark.parametrize(
    ("node", "before", "reason"),
    [
        (make_node("IDLE", reason=THEIRS), OURS, THEIRS),
        (make_node("IDLE", reason="worse"), THEIRS, "worse"),
        (make_node("IDLE", reason=OURS), OURS, ""),
        (make_node("IDLE", reason=THEIRS), THEIRS, ""),
        (make_node("IDLE", reason="k8s: pod gone"), OURS, ""),
        (make_node("DOWN", reason="Not responding"), OURS, ""),
        (make_node("DOWN", reason=THEIRS), OURS, ""),
        (make_node("IDLE+DRAIN", reason=THEIRS), OURS, ""),
        (make_node("IDLE"), OURS, ""),
    ],
)
def test_another_reason_after_a_lift_is_of_a_drain_that_was_lifted_too(
    node: SlurmNode, before: str, reason: str
) -> None:
    assert lifted_too(node, before) == reason


@pytest.mark.parametrize(
    ("pod", "node", "is_set"),
    [
        pytest.param(make_pod(), make_node("IDLE+NOT_RESPONDING", address=OLD_IP), True, id="silent"),
        pytest.param(make_pod(), make_node("DOWN", address=OLD_IP), True, id="given up"),
        pytest.param(make_pod(), make_node("DOWN", address=""), False, id="no address"),
        pytest.param(make_pod(), make_node("DOWN"), False, id="down where it is"),
        pytest.param(make_pod(), make_node("IDLE", address=OLD_IP), False, id="it answers there"),
        pytest.param(make_pod(ready=False), make_node("DOWN", address=OLD_IP), False, id="not there yet"),
    ],
)
def test_a_slurmd_that_is_sought_at_the_address_of_an_earlier_pod_is_found(pod: Pod, node: SlurmNode, is_set: bool):
    written = [
        action for action in to_slurm(decide_mirror(make_view(pod, node), NOW_S)) if isinstance(action, SetAddress)
    ]
    assert written == ([SetAddress(name=node.name, address=IP)] if is_set else [])


@pytest.mark.parametrize(
    ("node", "wanted", "is_set"),
    [
        (make_node(), "tree:all:l1", True),
        (make_node(topology="tree:all:l2"), "tree:all:l1", True),
        (make_node(topology="tree:all:l1"), "tree:all:l1", False),
        (make_node(topology="tree:all:l1"), "", True),
        (make_node(topology="rack:r1"), None, False),
        (make_node("ALLOCATED", alloc_cpus=1), "tree:all:l1", True),
        (make_node("FUTURE"), "tree:all:l1", False),
        (make_node("DOWN+NOT_RESPONDING"), "tree:all:l1", False),
    ],
)
def test_a_registered_node_is_told_where_it_stands_and_only_if_somebody_knows(node, wanted, is_set):
    decided = to_slurm(decide_mirror(make_view(make_pod(), node, topology=wanted), NOW_S))
    written = [action for action in decided if isinstance(action, SetTopology)]
    assert written == ([SetTopology(name=node.name, topology=wanted)] if is_set else [])


def test_where_a_node_stands_is_shown_on_its_pod_and_what_is_not_known_now_stays():
    pod = make_pod(annotations={names.ANNOTATION_TOPOLOGY: "s1/l1"})
    shown = {}
    for place in ("s1/l2", "", None):
        decided = decide_mirror(make_view(pod, make_node(), place=place), NOW_S)
        (patch,) = (action for action in decided.actions if isinstance(action, PatchPod))
        shown[place] = patch.annotations.get(names.ANNOTATION_TOPOLOGY, "stays")
    assert shown == {"s1/l2": "s1/l2", "": None, None: "stays"}


# ------------------------------------------------------------------------------------------- Slurm nodes without a pod


def test_a_drained_node_is_forgotten_after_two_answers() -> None:
    node = make_node("IDLE+DRAIN", reason="k8s: pod pending deletion: scale-down")
    first = decide_mirror(make_view(None, node), NOW_S)
    assert kinds(first) == []
    second = decide_mirror(make_view(None, node, number=2, memory=first.memory), NOW_S)
    assert to_slurm(second) == [DeleteSlurmNode(name=node.name, reason=node.reason, is_announced=True)]


def test_a_node_whose_pod_went_unannounced_is_drained_first_and_counts_towards_the_cap() -> None:
    drained = decide_mirror(make_view(None, make_node()), NOW_S)
    assert to_slurm(drained) == [DrainNode(name="gpu-000-001", reason="k8s: pod gone", is_announced=False)]
    gone = decide_twice(None, make_node("IDLE+DRAIN", reason="k8s: pod gone"))
    assert to_slurm(gone) == [DeleteSlurmNode(name="gpu-000-001", reason="k8s: pod gone", is_announced=False)]


@pytest.mark.parametrize("state", ["ALLOCATED+DRAIN", "MIXED+DRAIN", "IDLE+COMPLETING+DRAIN"])
def test_a_busy_node_is_never_deleted(state: str) -> None:
    assert "DeleteSlurmNode" not in kinds(decide_twice(None, make_node(state, reason="k8s: pod gone")))


def test_a_node_is_not_deleted_while_the_pods_are_not_known() -> None:
    node = make_node("IDLE+DRAIN", reason="k8s: pod gone")
    proved = decide_twice(None, node)
    view = make_view(None, node, number=3, memory=proved.memory, pods_known=False)
    assert kinds(decide_mirror(view, NOW_S)) == []


def test_a_pod_that_comes_back_keeps_its_node() -> None:
    node = make_node("IDLE+DRAIN", reason="k8s: pod gone")
    first = decide_mirror(make_view(None, node), NOW_S)
    back = decide_mirror(make_view(make_pod(ready=False, uid="uid-2"), node, number=2, memory=first.memory), NOW_S)
    assert "DeleteSlurmNode" not in kinds(back)


def test_a_node_drained_by_others_outlives_its_pod_for_a_while() -> None:
    node = make_node("IDLE+DRAIN", reason=THEIRS)
    first = decide_twice(None, node)
    assert kinds(first) == []
    later_s = NOW_S + FOREIGN_DRAIN_KEPT_S
    memory = first.memory
    for number in (3, 4):
        decision = decide_mirror(make_view(None, node, number=number, memory=memory, now_s=later_s), later_s)
        memory = decision.memory
    assert kinds(decision) == ["DeleteSlurmNode"]


# --------------------------------------------------------------------------------------------------------- fail closed


@pytest.mark.parametrize(("age_s", "trusted"), [(STALE_AFTER_S + 1, True), (0.0, False)], ids=["stale", "not believed"])
@pytest.mark.parametrize(
    "node", [make_node("IDLE+DRAIN", reason=OURS), make_node(), None], ids=["drained", "idle", "none"]
)
@pytest.mark.parametrize(
    "pod", [make_pod(), make_pod(cordon="x"), make_pod(pending=TOKEN), None], ids=["well", "cordon", "pending", "gone"]
)  # fmt: skip
def test_of_what_cannot_be_read_nothing_is_said_or_written(pod, node, age_s: float, trusted: bool) -> None:
    decision = decide_mirror(make_view(pod, node, age_s=age_s, trusted=trusted), NOW_S)
    assert decision.actions == ()
    assert decision.wants_next_answer == trusted, "the end of distrust is told to all names at once"
    assert decision.memory.drained is None
    assert decision.memory.deletable is None


def test_a_drained_token_is_taken_back_when_slurm_cannot_be_read() -> None:
    pod = make_pod(pending=TOKEN, annotations={names.ANNOTATION_DRAINED: TOKEN})
    decision = decide_mirror(make_view(pod, make_node(), age_s=STALE_AFTER_S + 1), NOW_S)
    assert annotations(decision)[names.ANNOTATION_DRAINED] is None


@pytest.mark.parametrize(
    ("drain", "running", "withdrawn"),
    [
        ("True", "False", {names.CONDITION_RUNNING: "Unknown"}),
        ("True", "True", {}),
        ("True", "Unknown", {}),
        ("False", "False", {}),
    ],
    ids=["may be evicted", "busy", "not known", "open"],
)
@pytest.mark.parametrize("trusted", [True, False], ids=["stale", "not believed"])
def test_an_outage_takes_back_only_what_somebody_may_act_on(drain, running, withdrawn, trusted: bool) -> None:
    told = {names.CONDITION_DRAIN: drain, names.CONDITION_RUNNING: running, names.CONDITION_CORDON: "True"}
    pod = with_conditions(make_pod(registered=True), told)
    decision = decide_mirror(make_view(pod, make_node(), age_s=STALE_AFTER_S + 1, trusted=trusted), NOW_S)
    assert conditions(decision) == withdrawn


def test_an_answer_that_takes_long_is_acted_on() -> None:
    view = make_view(make_pod(cordon="x"), make_node(), age_s=ACT_WITHIN_S + 1)
    assert view.answer is not None
    slow = msgspec.structs.replace(view, answer=msgspec.structs.replace(view.answer, turn_s=12.0))
    assert kinds(decide_mirror(slow, NOW_S)) == ["DrainNode"]
    assert decide_mirror(slow, NOW_S + 12.0 + STALE_AFTER_S).actions == ()


def test_an_old_answer_is_shown_but_not_acted_on() -> None:
    decision = decide_mirror(make_view(make_pod(cordon="x"), make_node(), age_s=ACT_WITHIN_S + 1), NOW_S)
    assert kinds(decision) == []
    assert conditions(decision)[names.CONDITION_DRAIN] == "False"
    assert decision.wants_next_answer


def test_no_answer_yet_is_waited_for() -> None:
    view = msgspec.structs.replace(make_view(make_pod(), None), answer=None)
    decision = decide_mirror(view, NOW_S)
    assert decision.actions == ()
    assert decision.wants_next_answer


# ------------------------------------------------------------------------------------------ jobs that come and go


def told_of(pod: Pod, node: SlurmNode) -> Pod:
    """The pod once it knows all that Slurm says of the node."""
    patch = next(a for a in decide_mirror(make_view(pod, node), NOW_S).actions if isinstance(a, PatchPod))
    notes = pod.annotations | {k: v for k, v in patch.annotations.items() if v is not None}
    known = with_conditions(pod, {})
    conditions = known.status.conditions + patch.conditions
    return msgspec.structs.replace(
        known,
        metadata=msgspec.structs.replace(known.metadata, annotations=notes),
        status=msgspec.structs.replace(known.status, conditions=conditions),
    )


def with_conditions(pod: Pod, told: dict[str, str]) -> Pod:
    added = tuple(Condition(type=type_, status=status) for type_, status in told.items())
    return msgspec.structs.replace(
        pod, status=msgspec.structs.replace(pod.status, conditions=pod.status.conditions + added)
    )


def test_a_job_on_an_open_node_is_told_later_and_a_short_one_never() -> None:
    pod = told_of(make_pod(), make_node())
    first = decide_mirror(make_view(pod, make_node("MIXED")), NOW_S)
    assert first.actions == ()
    assert first.again_s == JOB_STATE_HELD_S
    later_s = NOW_S + JOB_STATE_HELD_S
    lasting = make_view(pod, make_node("MIXED"), number=2, memory=first.memory, now_s=later_s)
    assert conditions(decide_mirror(lasting, later_s)) == {names.CONDITION_RUNNING: "True"}
    over = decide_mirror(make_view(pod, make_node(), number=2, memory=first.memory, now_s=later_s), later_s)
    assert over.actions == ()
    assert over.again_s is None


@pytest.mark.parametrize(
    ("pod", "node"),
    [
        pytest.param(make_pod(), make_node("MIXED+DRAIN", reason=OURS), id="it closes in the same moment"),
        pytest.param(make_pod(cordon="x"), make_node("MIXED"), id="it is about to be drained"),
        pytest.param(make_pod(pending=TOKEN), make_node("MIXED"), id="its pod is to go"),
        pytest.param(make_pod(deleting=True), make_node("MIXED"), id="its pod goes"),
    ],
)
def test_where_somebody_waits_for_jobs_to_end_they_are_told_at_once(pod: Pod, node: SlurmNode) -> None:
    known = told_of(make_pod(), make_node())
    pod = msgspec.structs.replace(
        known,
        metadata=msgspec.structs.replace(pod.metadata, annotations=known.annotations | pod.annotations),
    )
    assert conditions(decide_mirror(make_view(pod, node), NOW_S))[names.CONDITION_RUNNING] == "True"


def test_a_job_that_ends_on_a_closed_node_is_told_at_once() -> None:
    pod = told_of(make_pod(cordon="disk"), make_node("MIXED+DRAIN", reason=OURS))
    decision = decide_mirror(make_view(pod, make_node("IDLE+DRAIN", reason=OURS)), NOW_S)
    assert conditions(decision)[names.CONDITION_RUNNING] == "False"


@pytest.mark.parametrize("nodes", [1, 100, 1_000, 10_000])
def test_pods_are_told_of_jobs_so_often_in_all(nodes: int) -> None:
    assert nodes / job_state_held_s(nodes) <= JOB_STATE_PER_S
    assert job_state_held_s(nodes) >= JOB_STATE_HELD_S


def test_a_drain_is_not_lifted_while_the_pods_are_not_known() -> None:
    view = make_view(make_pod(), make_node("IDLE+DRAIN", reason=OURS), pods_known=False)
    assert kinds(decide_mirror(view, NOW_S)) == []


def test_an_answer_from_before_our_write_says_nothing() -> None:
    memory = after_writing(MirrorMemory(), [UndrainNode(name="gpu-000-001", pod=make_pod())], NOW_S)
    decision = decide_mirror(
        make_view(make_pod(), make_node("IDLE+DRAIN", reason=OURS), age_s=1.0, memory=memory), NOW_S
    )
    assert decision.actions == ()
    assert decision.wants_next_answer


def test_a_write_without_effect_is_repeated_slowly() -> None:
    view = make_view(make_pod(cordon="disk"), make_node())
    first = decide_mirror(view, NOW_S)
    memory = after_writing(first.memory, first.actions, NOW_S)
    again = decide_mirror(make_view(make_pod(cordon="disk"), make_node(), number=2, memory=memory), NOW_S)
    assert kinds(again) == []
    assert again.again_s
    later_s = NOW_S + again.again_s
    view = make_view(make_pod(cordon="disk"), make_node(), number=3, memory=again.memory, now_s=later_s)
    assert kinds(decide_mirror(view, later_s)) == ["DrainNode"]


# ------------------------------------------------------------------------------------------------------ what pods hear


@pytest.mark.parametrize(
    ("node", "drain", "cordon", "running", "registered"),
    [
        (make_node(), "False", "False", "False", "True"),
        (make_node("ALLOCATED"), "False", "False", "True", "True"),
        (make_node("MIXED+DRAIN", reason=OURS), "True", "False", "True", "True"),
        (make_node("IDLE+DRAIN", reason=THEIRS), "True", "True", "False", "True"),
        (make_node("DOWN"), "False", "False", "False", "False"),
        (make_node("DOWN", reason=THEIRS), "True", "True", "False", "False"),
        (make_node("IDLE+FAIL", reason=THEIRS), "True", "True", "False", "False"),
        (make_node("DOWN", reason="Not responding"), "False", "False", "False", "False"),
        (make_node("IDLE+DRAIN+INVALID_REG", reason="Low RealMemory"), "True", "True", "False", "False"),
        (None, "False", "Unknown", "False", "False"),
    ],
    ids=lambda value: value.state_text if isinstance(value, SlurmNode) else str(value),
)  # fmt: skip
def test_conditions_of_a_pod(node: SlurmNode | None, drain: str, cordon: str, running: str, registered: str) -> None:
    told = conditions(decide_mirror(make_view(make_pod(), node), NOW_S))
    assert told == {
        names.CONDITION_DRAIN: drain,
        names.CONDITION_CORDON: cordon,
        names.CONDITION_RUNNING: running,
        names.CONDITION_NOT_RESPONDING: "False",
        names.READINESS_GATE: registered,
    }


TODAY_S = STARTED_S + 60


@pytest.mark.parametrize(
    ("started", "since_s", "address", "is_there"),
    [
        pytest.param(STARTED, STARTED_S - 3600, OLD_IP, False, id="the slurmd of the pod before"),
        pytest.param(STARTED, STARTED_S, OLD_IP, True, id="its own, behind another address"),
        pytest.param(STARTED, STARTED_S - 3600, IP, True, id="its own, the clock was set back"),
        pytest.param(STARTED, 0, OLD_IP, True, id="slurmctld has just started and does not say"),
        pytest.param(None, STARTED_S - 3600, OLD_IP, False, id="it has not started"),
        pytest.param(STARTED, TODAY_S + 3600, OLD_IP, False, id="that of the pod before, whose clock was ahead"),
        pytest.param(STARTED, TODAY_S + 3600, IP, True, id="its own, whose clock was ahead"),
        pytest.param(STARTED, TODAY_S + 20, OLD_IP, True, id="its own, behind another address, clocks differ"),
    ],
)
def test_the_record_that_an_earlier_slurmd_left_does_not_stand_for_this_pod(
    started: str | None, since_s: int, address: str, is_there: bool
) -> None:
    """A node with jobs stays in Slurm when its pod goes, for minutes as if nothing had happened."""
    node = make_node("MIXED+DRAIN", reason="k8s: pod gone", address=address, slurmd_since_s=since_s)
    decision = decide_mirror(
        make_view(make_pod(started=started), node, today=datetime.fromtimestamp(TODAY_S, UTC)), NOW_S
    )
    assert conditions(decision)[names.READINESS_GATE] == str(is_there)
    assert kinds(decision) == (["UndrainNode"] if is_there else [])


def test_the_drain_reason_and_the_state_are_annotations() -> None:
    told = annotations(decide_mirror(make_view(make_pod(), make_node("IDLE+DRAIN", reason=THEIRS)), NOW_S))
    assert told[names.ANNOTATION_DRAIN] == THEIRS
    assert told[names.ANNOTATION_SLURM_STATE] == "IDLE+DRAIN"


@pytest.mark.parametrize(
    ("state", "since_s", "told"),
    [
        ("IDLE+DRAIN", STARTED_S, {names.ANNOTATION_SLURMD_SINCE: STARTED}),
        ("IDLE+DRAIN", 0, {}),
        ("IDLE", STARTED_S, {names.ANNOTATION_SLURMD_SINCE: None}),
    ],
)
def test_of_a_closed_node_it_is_told_whose_slurmd_slurm_knows(state: str, since_s: int, told: dict[str, str]) -> None:
    """Pods of open nodes get no such note, because a reconfigure restarts all slurmds."""
    before = {names.ANNOTATION_SLURMD_SINCE: "2026-11-20T00:00:00Z"}
    pod = make_pod(started=STARTED, annotations=before)
    node = make_node(state, reason=THEIRS if "DRAIN" in state else "", slurmd_since_s=since_s)
    found = annotations(decide_mirror(make_view(pod, node), NOW_S))
    assert {key: text for key, text in found.items() if key in before} == told


def test_a_pod_that_knows_everything_is_left_alone() -> None:
    node = make_node()
    patch = next(a for a in decide_mirror(make_view(make_pod(), node), NOW_S).actions if isinstance(a, PatchPod))
    pod = make_pod(annotations={k: v for k, v in patch.annotations.items() if v is not None})
    known = pod.status.conditions + patch.conditions
    pod = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=known))
    assert decide_mirror(make_view(pod, node), NOW_S).actions == ()


def test_half_a_second_of_silence_after_a_lifted_drain_is_not_told() -> None:
    node = make_node("IDLE+NOT_RESPONDING")
    first = decide_mirror(make_view(make_pod(registered=True), node), NOW_S)
    told = conditions(first)
    assert names.READINESS_GATE not in told
    assert told[names.CONDITION_NOT_RESPONDING] == "False"
    assert first.again_s == SILENCE_GRACE_S
    later_s = NOW_S + SILENCE_GRACE_S
    view = make_view(make_pod(registered=True), node, number=2, memory=first.memory, now_s=later_s)
    told = conditions(decide_mirror(view, later_s))
    assert told[names.CONDITION_NOT_RESPONDING] == "True"
    assert told[names.READINESS_GATE] == "False"


def test_a_pod_that_stays_unready_gets_its_node_drained() -> None:
    pod = make_pod(ready=False)
    first = decide_mirror(make_view(pod, make_node()), NOW_S)
    assert first.again_s == UNREADY_GRACE_S
    later_s = NOW_S + UNREADY_GRACE_S
    view = make_view(pod, make_node(), number=2, memory=first.memory, now_s=later_s)
    assert to_slurm(decide_mirror(view, later_s)) == [
        DrainNode(name="gpu-000-001", reason="k8s: pod not ready", is_announced=False)
    ]


def test_a_long_start_before_registration_is_not_held_against_the_pod() -> None:
    pod = make_pod(ready=False)
    starting = decide_mirror(make_view(pod, None), NOW_S)
    later_s = NOW_S + 10 * UNREADY_GRACE_S
    view = make_view(pod, make_node(comment=""), number=2, memory=starting.memory, now_s=later_s)
    assert kinds(decide_mirror(view, later_s)) == ["SetComment"]


def test_a_comment_is_an_action_with_the_pods_identity() -> None:
    action = to_slurm(decide_mirror(make_view(make_pod(), make_node(comment="")), NOW_S))[0]
    assert isinstance(action, SetComment)
    assert '"uid":"uid-1"' in action.comment

from __future__ import annotations

import pytest

from sunkpy.core.model.states import NodeComment, SlurmNode


def make_node(state: str, *, reason: str = "", alloc_cpus: int = 0) -> SlurmNode:
    return SlurmNode(name="gpu-001", state=frozenset(state.split("+")), reason=reason, alloc_cpus=alloc_cpus)


@pytest.mark.parametrize(
    ("state", "busy", "drained", "registered"),
    [
        ("IDLE", False, False, True),
        ("IDLE+DRAIN", False, True, True),
        ("ALLOCATED+DRAIN", True, False, True),
        ("MIXED", True, False, True),
        ("IDLE+COMPLETING+DRAIN", True, False, True),
        ("DOWN+NOT_RESPONDING", False, False, False),
        ("DOWN+DRAIN", False, True, False),
        ("IDLE+DRAIN+UNDRAIN", False, False, True),
        ("IDLE+INVALID_REG", False, False, False),
        ("FUTURE", False, False, False),
        ("UNKNOWN", False, False, False),
    ],
)
def test_flags_decide_what_may_be_done_with_a_node(state: str, busy: bool, drained: bool, registered: bool) -> None:
    node = make_node(state)
    assert (node.is_busy, node.is_drained, node.is_registered) == (busy, drained, registered)


def test_cpus_in_use_make_a_node_busy_whatever_its_state_says() -> None:
    assert not make_node("IDLE+DRAIN", alloc_cpus=1).is_drained


@pytest.mark.parametrize(
    ("reason", "ours"), [("k8s: cordon: disk", True), ("bad GPU", False), ("k8s", False), ("", False)]
)
def test_a_drain_is_ours_only_with_our_prefix(reason: str, ours: bool) -> None:
    node = make_node("IDLE+DRAIN", reason=reason)
    assert (node.is_drained_by_us, node.is_held_by_others) == (ours, not ours)


@pytest.mark.parametrize(
    ("state", "reason", "theirs"),
    [
        pytest.param("IDLE+FAIL", "bad gpu", True, id="FAIL"),
        pytest.param("IDLE+FAIL", "k8s: cordon", True, id="FAIL without a reason of its own, on a drain of ours"),
        pytest.param("DOWN", "bad gpu", True, id="DOWN"),
        pytest.param("DOWN+NOT_RESPONDING", "power supply", True, id="DOWN, and slurmd went away too"),
        pytest.param("DOWN", "Not responding", False, id="Slurm heard nothing"),
        pytest.param("DOWN+NOT_RESPONDING", "Not responding", False, id="and still does not"),
        pytest.param("DOWN", ": Not responding", False, id="Slurm adds it to a blank"),
        pytest.param("DOWN", "Not responding : Not responding", False, id="Slurm adds it to itself"),
        pytest.param("DOWN", "Node unexpectedly rebooted : Not responding", False, id="Slurm adds it to its own"),
        pytest.param("DOWN", "disk : Not responding", True, id="Slurm adds it to an admin's"),
        pytest.param("DOWN", "Not responding to IPMI, ask ann", True, id="an admin's words that begin as Slurm's"),
        pytest.param("DOWN+DRAIN", "Not responding", True, id="a drain without a reason before"),
        pytest.param("DOWN", "", False, id="DOWN after our drain was lifted"),
        pytest.param("DOWN+DRAIN", "k8s: cordon", False, id="ours, then slurmd went away"),
        pytest.param("IDLE", "bad gpu", False, id="an old reason on an open node"),
    ],
)
def test_what_an_admin_set_is_held_whatever_flag_it_stands_on(state: str, reason: str, theirs: bool) -> None:
    node = make_node(state, reason=reason)
    assert node.is_held_by_others is theirs
    assert not (theirs and node.is_drained_by_us)
    assert node.is_closed is (theirs or node.is_drain)


@pytest.mark.parametrize("comment", ["", "rack 7", "{}", "[1]", '{"node": 3}'])
def test_a_comment_of_somebody_else_names_no_owner(comment: str) -> None:
    assert SlurmNode(name="x", comment=comment).owner is None


def test_the_owner_survives_the_comment() -> None:
    owner = NodeComment(node="n1", namespace="slurm", pod="gpu-001", uid="u1", nodeset="gpu")
    assert SlurmNode(name="x", comment=owner.encode()).owner == owner


def test_the_base_state_comes_first_in_the_text() -> None:
    assert make_node("DRAIN+IDLE+COMPLETING").state_text == "IDLE+COMPLETING+DRAIN"

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
    assert (node.is_drained_by_us, node.is_drained_by_others) == (ours, not ours)


@pytest.mark.parametrize("comment", ["", "rack 7", "{}", "[1]", '{"node": 3}'])
def test_a_comment_of_somebody_else_names_no_owner(comment: str) -> None:
    assert SlurmNode(name="x", comment=comment).owner is None


def test_the_owner_survives_the_comment() -> None:
    owner = NodeComment(node="n1", namespace="slurm", pod="gpu-001", uid="u1", nodeset="gpu")
    assert SlurmNode(name="x", comment=owner.encode()).owner == owner


def test_the_base_state_comes_first_in_the_text() -> None:
    assert make_node("DRAIN+IDLE+COMPLETING").state_text == "IDLE+COMPLETING+DRAIN"

"""What the demo believes of a node."""

from __future__ import annotations

import pytest

from demo.story import NotSo, check_gpus, check_sharing, is_idle
from sunkpy.core.model.objects import Meta, Pod, PodSpec


@pytest.mark.parametrize(
    ("state", "idle"),
    [
        ("IDLE", True),
        ("IDLE+DYNAMIC_NORM", True),
        ("IDLE+DYNAMIC_NORM+PLANNED", True),
        ("IDLE*+DYNAMIC_NORM", False),
        ("IDLE+COMPLETING", False),
        ("IDLE+DRAIN+DYNAMIC_NORM", False),
        ("ALLOCATED+DYNAMIC_NORM", False),
    ],
)
def test_a_node_is_idle_when_it_runs_nothing_and_may_run_everything(state: str, idle: bool):
    assert is_idle({"State": state}) is idle


def on(node: str, *names: str) -> list[Pod]:
    return [Pod(metadata=Meta(name=name, namespace="demo"), spec=PodSpec(node_name=node)) for name in names]


def test_two_pods_of_a_node_have_a_gpu_each():
    given = {"a": [0], "b": [1], "c": [0]}
    assert check_sharing([*on("node-1", "a", "b"), *on("node-2", "c")], given) == ["a", "b"]


@pytest.mark.parametrize(
    ("pods", "given", "why"),
    [
        (on("node-1", "a", "b"), {"a": [1], "b": [1]}, "on node-1 two have the same GPU"),
        ([*on("node-1", "a"), *on("node-2", "b")], {"a": [0], "b": [0]}, "no two pods share a node"),
    ],
)
def test_pods_that_share_a_gpu_or_no_node_are_told(pods: list[Pod], given: dict[str, list[int]], why: str):
    with pytest.raises(NotSo, match=why):
        check_sharing(pods, given)


@pytest.mark.parametrize(
    ("seen", "why"),
    [("gpu0", "pod a has gpu0, Slurm gave gpu1 to its job"), ("", "pod a has no GPU, Slurm gave gpu1")],
)
def test_a_pod_has_the_gpu_of_its_job_and_no_other(seen: str, why: str):
    check_gpus({"a": [1], "b": [0, 1]}, {"a": "gpu1", "b": "gpu0,gpu1"})
    with pytest.raises(NotSo, match=why):
        check_gpus({"a": [1]}, {"a": seen})

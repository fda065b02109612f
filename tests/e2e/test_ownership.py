"""Drains, cordons, DOWN and FAIL belong to whoever set them: nothing lifts or overwrites what somebody else did."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from demo.stack import Stack
from devcluster.shell import CommandFailed
from devcluster.waiting import NeverSo, wait, wait_until_equal, wait_until_none
from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from tests.e2e.agreement import disagreements, wait_for_agreement
from tests.e2e.outage import scaled_to_zero

pytestmark = pytest.mark.e2e

WHY = "bad gpu"
SETTLE_S = 30.0
SEEN_S = 2.5


@pytest.fixture
def pod(stack: Stack) -> Iterator[Pod]:
    """A slurmd pod whose node is given back after the test, on both sides."""
    found = min(stack.slurmd_pods(), key=lambda pod: pod.name)
    yield found
    _give_back(stack, found)


@pytest.mark.parametrize("state", ["fail", "down", "drain"])
def test_a_cordon_that_comes_and_goes_leaves_what_an_admin_set(stack: Stack, pod: Pod, state: str) -> None:
    _scontrol(stack, pod, f"state={state}", f"reason={WHY}")
    _wait_for_cordon(stack, pod, wanted=True)
    assert _note(stack, pod, names.ANNOTATION_SLURM_DRAIN) == WHY
    _take_over(stack, pod, "new dimm")
    _wait_for_note(stack, pod, names.ANNOTATION_CORDONED_BY, None)
    assert _reason(stack, pod) == WHY
    stack.kubectl("uncordon", pod.spec.node_name)
    _wait_for_note(stack, pod, names.ANNOTATION_CORDONED_BY, "slurm")
    assert _reason(stack, pod) == WHY
    assert state.upper() in _state(stack, pod)


def test_a_person_who_says_why_takes_our_cordon_over(stack: Stack, pod: Pod) -> None:
    _scontrol(stack, pod, "state=drain", f"reason={WHY}")
    _wait_for_cordon(stack, pod, wanted=True)
    _take_over(stack, pod, "new dimm")
    _wait_for_note(stack, pod, names.ANNOTATION_CORDONED_BY, None)
    _scontrol(stack, pod, "state=resume")
    wait_until_equal(lambda: _reason(stack, pod), "k8s: cordon: new dimm", timeout_s=SETTLE_S, what="Slurm's reason")
    assert _node(stack, pod).spec.unschedulable


def test_a_drain_outlives_pod_and_slurm_node(stack: Stack, pod: Pod) -> None:
    _scontrol(stack, pod, "state=drain", f"reason={WHY}")
    _wait_for_cordon(stack, pod, wanted=True)
    with scaled_to_zero(stack, "syncer"):  # else the record would be written again before the new pod comes
        _replace(stack, pod, forget=True)
        assert _reason(stack, pod) == WHY
    assert _node(stack, pod).spec.unschedulable
    assert "DRAIN" in _state(stack, pod)


def test_a_record_that_slurm_lost_is_drained_again_when_slurmd_restarts(stack: Stack, pod: Pod) -> None:
    _scontrol(stack, pod, "state=drain", f"reason={WHY}")
    _wait_for_cordon(stack, pod, wanted=True)
    _forget_record(stack, pod)
    _exec(stack, pod, "kill", "1")
    wait_until_equal(lambda: _reason(stack, pod), WHY, timeout_s=60, what="Slurm's reason after slurmd came back")
    assert _node(stack, pod).spec.unschedulable


def test_a_new_slurmd_on_a_cordoned_node_registers_drained(stack: Stack, pod: Pod) -> None:
    stack.kubectl("cordon", pod.spec.node_name)
    wait_until_equal(lambda: "DRAIN" in _state(stack, pod), True, timeout_s=SETTLE_S, what="drained")
    with scaled_to_zero(stack, "syncer"):
        _replace(stack, pod, forget=True)
        assert "DRAIN" in _state(stack, pod)
        assert _reason(stack, pod) == "k8s: cordon: node cordoned"
    stack.kubectl("uncordon", pod.spec.node_name)
    wait_until_equal(lambda: "DRAIN" in _state(stack, pod), False, timeout_s=SETTLE_S, what="drained")


def test_an_evicted_slurmd_pod_stays_away_until_the_node_is_uncordoned(stack: Stack, pod: Pod) -> None:
    node = pod.spec.node_name
    selector = f"--pod-selector={names.LABEL_SLURM_NODE}={pod.name}"
    stack.kubectl(
        "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", selector, "--timeout=90s", timeout_s=100
    )
    _wait_for_note(stack, pod, names.ANNOTATION_EMPTIED, "evicted")
    with pytest.raises(NeverSo):
        wait(lambda: _find(stack, pod.name) is not None, timeout_s=10, what="a pod that must not come")
    stack.kubectl("uncordon", node)
    wait_for_agreement(stack, timeout_s=90, after="uncordon")


def test_a_pod_that_only_has_the_labels_of_a_slurmd_pod_changes_nothing(stack: Stack, pod: Pod) -> None:
    name = "impostor"
    body: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {**pod.labels, names.LABEL_NODESET: name}},
        "spec": {
            "nodeName": pod.spec.node_name,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": stack.images["sunkpy"], "command": ["sleep", "60"]}],
        },
    }
    with _applied(stack, body, name):
        stack.kubectl("annotate", "node", pod.spec.node_name, "sunkpy.dev/look=again", "--overwrite")
        stack.kubectl("annotate", "node", pod.spec.node_name, "sunkpy.dev/look-")
        wait_for_agreement(stack, timeout_s=30, after="an impostor")
        assert _node(stack, pod).labels[names.LABEL_POD] == pod.name
        assert _node(stack, pod).labels[names.LABEL_NODESET] == pod.labels[names.LABEL_NODESET]


# ------------------------------------------------------------------------------------------------------------ the parts


def _give_back(stack: Stack, pod: Pod) -> None:
    stack.kubectl("uncordon", pod.spec.node_name)
    stack.kubectl("annotate", "node", pod.spec.node_name, f"{names.ANNOTATION_DRAIN}-")
    wait(lambda: _state(stack, pod) != "", timeout_s=90, what=f"Slurm node {pod.name}")

    def left() -> list[str]:
        # Of a node that was away when the syncer looked, it cannot tell a drain that was lifted from one that was lost.
        if any(flag in _state(stack, pod) for flag in ("DRAIN", "FAIL", "DOWN")):
            with contextlib.suppress(CommandFailed):  # ours may have been lifted meanwhile
                _scontrol(stack, pod, "state=resume")
            return [f"Slurm node {pod.name} was resumed"]
        return disagreements(stack)

    wait_until_none(left, timeout_s=120, what="agreement after giving the node back", every_s=SEEN_S)


def _take_over(stack: Stack, pod: Pod, why: str) -> None:
    """As docs/tasks/drain-and-cordon.md tells people to."""
    stack.kubectl("annotate", "--overwrite", "node", pod.spec.node_name, f"{names.ANNOTATION_DRAIN}={why}")
    stack.kubectl("cordon", pod.spec.node_name)


def _replace(stack: Stack, pod: Pod, *, forget: bool) -> None:
    """The pod goes by name, its Slurm record too if asked; wait until the next one has registered."""
    stack.kubectl("delete", "pod", pod.name, "-n", stack.namespace, "--grace-period=1", "--wait=false")

    def is_gone() -> bool:
        found = _find(stack, pod.name)
        return found is None or found.uid != pod.uid

    wait(is_gone, timeout_s=60, what=f"the old {pod.name} is gone")
    if forget:
        _forget_record(stack, pod)
    wait(lambda: "IDLE" in _state(stack, pod), timeout_s=90, what=f"{pod.name} registers again")


def _forget_record(stack: Stack, pod: Pod) -> None:
    with contextlib.suppress(Exception):  # start-slurmd or the syncer may have been faster
        stack.scontrol("delete", f"nodename={pod.name}")


def _scontrol(stack: Stack, pod: Pod, *changes: str) -> None:
    stack.scontrol("update", f"nodename={pod.name}", *changes)


def _exec(stack: Stack, pod: Pod, *command: str) -> None:
    stack.kubectl("exec", pod.name, "-n", stack.namespace, "-c", names.SLURMD_CONTAINER, "--", *command)


def _find(stack: Stack, name: str) -> Pod | None:
    return next((pod for pod in stack.slurmd_pods() if pod.name == name), None)


def _node(stack: Stack, pod: Pod) -> Node:
    return stack.kubectl.get(Node, "node", pod.spec.node_name)


def _note(stack: Stack, pod: Pod, key: str) -> str | None:
    return _node(stack, pod).annotations.get(key)


def _state(stack: Stack, pod: Pod) -> str:
    return stack.slurm_nodes().get(pod.name, {}).get("State", "")


def _reason(stack: Stack, pod: Pod) -> str:
    """The reason of the pod's Slurm node, without who set it and when."""
    return stack.slurm_nodes().get(pod.name, {}).get("Reason", "").partition(" [")[0]


def _wait_for_cordon(stack: Stack, pod: Pod, *, wanted: bool) -> None:
    what = f"{pod.spec.node_name} unschedulable"
    wait_until_equal(lambda: _node(stack, pod).spec.unschedulable, wanted, timeout_s=SETTLE_S, what=what)


def _wait_for_note(stack: Stack, pod: Pod, key: str, wanted: str | None) -> None:
    wait_until_equal(lambda: _note(stack, pod, key), wanted, timeout_s=60, what=f"{key} of {pod.spec.node_name}")


@contextlib.contextmanager
def _applied(stack: Stack, body: dict[str, object], name: str) -> Iterator[None]:
    stack.kubectl.apply(body)
    try:
        yield
    finally:
        stack.kubectl("delete", "pod", name, "-n", "default", "--grace-period=0", "--force")

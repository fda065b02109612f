"""What is kept of a pod is all that the mirror reads of it."""

from __future__ import annotations

import msgspec
import pytest

from sunkpy.core.mirror import LiftDrain, PatchPod, ResumeNode, UndrainNode, decide_mirror
from sunkpy.core.model.objects import Container, Pod, PodSpec
from sunkpy.kube.trim import trim_slurmd
from tests.unit.core.mirror.build import NOW_S, OLD_IP, TOKEN, make_node, make_pod, make_view

PODS = [
    make_pod(started="2026-11-21T00:00:00Z"),
    make_pod(cordon="x"),
    make_pod(pending=TOKEN),
    make_pod(ready=False),
    make_pod(deleting=True),
]
NODES = [
    make_node(),
    make_node("IDLE+DRAIN", reason="k8s: cordon: x"),
    make_node("MIXED+DRAIN", reason="k8s: cordon: x", address=OLD_IP, slurmd_since_s=1_800_000_000),
    make_node("DOWN", address=OLD_IP, comment=""),
]


def decided(pod: Pod, node: object) -> list[object]:
    actions = decide_mirror(make_view(pod, node), NOW_S).actions
    bare, about_pods = Pod(), PatchPod | UndrainNode | LiftDrain | ResumeNode
    return [msgspec.structs.replace(a, pod=bare) if isinstance(a, about_pods) else a for a in actions]


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.state_text)
@pytest.mark.parametrize("pod", PODS, ids=["well", "cordon", "pending", "not ready", "going"])
def test_it_decides_as_the_whole_pod_does(pod: Pod, node: object) -> None:
    spec = PodSpec(node_name=pod.spec.node_name, containers=(Container(name="slurmd"),))
    whole = msgspec.structs.replace(pod, spec=spec)
    assert trim_slurmd(whole).spec.containers == ()
    assert decided(trim_slurmd(whole), node) == decided(whole, node)

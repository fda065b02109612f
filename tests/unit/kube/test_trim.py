"""What is kept of Nodes and slurmd pods is little, however much other programs write on them, and enough to decide."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.model.matching import allocatable
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.placement.admission import why_node_refuses
from sunkpy.kube.trim import trim_node, trim_slurmd

MANY = 200


def metadata(number: int, **ours: str) -> dict[str, object]:
    annotations = {f"example.com/feature-{n}": f"value {n} of it " * 10 for n in range(20)}
    return {
        "name": f"node-{number:05d}", "namespace": "slurm", "uid": f"{number:08d}-1111-2222", "resourceVersion": "7",
        "labels": {f"example.com/{n}": "true" for n in range(40)}, "annotations": annotations | ours,
    }  # fmt: skip


def conditions(*types: str) -> list[dict[str, str]]:
    said = {"status": "True", "reason": "KubeletIsWell", "message": "the kubelet has all that it needs"}
    return [{"type": type_, "lastTransitionTime": "2026-11-29T01:00:00Z", **said} for type_ in types]


def node_text(number: int) -> bytes:
    size = {"cpu": "128", "memory": "1056000000Ki", "pods": "250", "nvidia.com/gpu": "8"}
    addresses = [{"type": "InternalIP", "address": f"10.0.0.{number}"}, {"type": "Hostname", "address": "h"}]
    signs = conditions("Ready", *(f"Kernel{n}" for n in range(12)))
    return msgspec.json.encode({
        "metadata": metadata(number, **{names.ANNOTATION_DRAIN: "fan"}),
        "spec": {"unschedulable": True},
        "status": {"capacity": size, "allocatable": size, "addresses": addresses, "conditions": signs},
    })  # fmt: skip


def slurmd_text(number: int) -> bytes:
    container = {"resources": {"requests": {"cpu": "8", "memory": "64Gi"}, "limits": {"memory": "64Gi"}}}
    signs = conditions("PodScheduled", "Initialized", "Ready", "ContainersReady", names.READINESS_GATE)
    spec = {"nodeName": "n", "containers": [{**container, "name": f"c{n}"} for n in range(4)]}
    status = {"phase": "Running", "podIP": "10.1.1.1", "conditions": signs, "containerStatuses": [{"name": "slurmd"}]}
    ours = {names.ANNOTATION_TOPOLOGY: "leaf"}
    return msgspec.json.encode({"metadata": metadata(number, **ours), "spec": spec, "status": status})


@pytest.mark.parametrize(
    ("text", "type_", "keep", "most"),
    [(node_text, Node, trim_node, 4000), (slurmd_text, Pod, trim_slurmd, 3000)],
    ids=["node", "slurmd pod"],
)
def test_of_each_machine_a_few_kilobytes_are_kept(text, type_, keep, most):
    texts = [text(number) for number in range(MANY)]
    tracemalloc.start()
    try:
        kept = [keep(msgspec.json.decode(each, type=type_)) for each in texts]
        assert tracemalloc.get_traced_memory()[0] / len(kept) < most
    finally:
        tracemalloc.stop()


def test_pods_are_refused_on_what_is_kept_of_a_node_as_on_the_whole():
    whole, pod = msgspec.json.decode(node_text(1), type=Node), Pod()
    kept = trim_node(whole)
    assert (kept.labels, kept.internal_ip, allocatable(kept)) == (whole.labels, "10.0.0.1", allocatable(whole))
    assert why_node_refuses(pod, kept) == why_node_refuses(pod, whole)
    assert "cordoned by somebody in Kubernetes (fan)" in why_node_refuses(pod, kept)
    assert kept.status.daemon_endpoints == whole.status.daemon_endpoints


def test_a_slurmd_pod_says_where_it_is_and_whether_it_is_registered():
    kept = trim_slurmd(msgspec.json.decode(slurmd_text(1), type=Pod))
    assert (kept.spec.node_name, kept.status.pod_ip, kept.is_finished) == ("n", "10.1.1.1", False)
    assert kept.is_condition_true(names.READINESS_GATE)
    assert kept.is_condition_true("ContainersReady")
    assert kept.annotations == {names.ANNOTATION_TOPOLOGY: "leaf"}

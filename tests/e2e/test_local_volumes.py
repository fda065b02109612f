"""Volumes that are made where their first pod is, and can be reached only there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo.stack import Stack
from devcluster.storage import LOCAL_CLASS
from tests.e2e import workloads

CLAIM = "scratch"


@pytest.fixture
def claim(stack: Stack) -> Iterator[str]:
    stack.kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM, "namespace": workloads.NAMESPACE},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": LOCAL_CLASS,
                "resources": {"requests": {"storage": "1Mi"}},
            },
        }
    )
    yield CLAIM
    for kind, name in (("pod", "writer"), ("pod", "reader"), ("pvc", CLAIM)):
        stack.kubectl("delete", kind, name, "-n", workloads.NAMESPACE, "--ignore-not-found", "--wait")


def with_claim(stack: Stack, name: str, claim: str, script: str) -> dict[str, object]:
    pod = workloads.pod(
        name, image=stack.images["sunkpy"], scheduler=stack.scheduler_name, command=["sh", "-c", script]
    )
    spec = pod["spec"]
    spec["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": claim}})
    spec["containers"][0]["volumeMounts"].append({"name": "data", "mountPath": "/data"})
    return pod


def test_the_second_pod_of_a_local_volume_comes_where_the_first_has_left_its_data(stack: Stack, claim: str) -> None:
    last = max(node.metadata.name for node in stack.nodes())  # Slurm fills its nodes from the first one on
    writer = with_claim(stack, "writer", claim, "echo here >/data/written; sleep 600")
    writer["spec"]["nodeSelector"] = {"kubernetes.io/hostname": last}
    stack.kubectl.apply(writer)
    assert workloads.wait_for_running(stack, "writer").spec.node_name == last
    stack.kubectl("delete", "pod", "writer", "-n", workloads.NAMESPACE, "--wait")
    stack.kubectl.apply(with_claim(stack, "reader", claim, "grep here /data/written && sleep 600"))
    assert workloads.wait_for_running(stack, "reader").spec.node_name == last

"""Nodes come and go with the real Cluster Autoscaler, on a real apiserver: 0 → 3 → 0.

Its provider `kwok` makes Node objects instead of machines. What a kubelet, kube-scheduler and the syncer would write of
them, the test writes; the operator is whole. `$SUNKPY_CLUSTER_AUTOSCALER` is the program: `go build ./kwok` in
github.com/kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from devcluster.waiting import wait_until
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.core.nodeset.slurmd_pod import node_of
from sunkpy.kube.client import Kube
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.operator.settings import OperatorSettings
from sunkpy.operator.term import Term
from sunkpy.runtime.process import Process
from tests.integration.apiserver import Apiserver, alone
from tests.unit.charts.rendering import render

PROGRAM = os.environ.get("SUNKPY_CLUSTER_AUTOSCALER", "")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    pytest.mark.skipif(not PROGRAM, reason="needs SUNKPY_CLUSTER_AUTOSCALER"),
]

OPERATOR = "operator"
NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"
NODESETS = "/apis/sunkpy.dev/v1alpha1/namespaces/default/nodesets"
MOST = 3
POOL = "gpu-pool"
"""Which nodes the NodeSet takes, and the node group of the autoscaler."""
MACHINE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "machine",
        "labels": {"pool": POOL, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"},
        "annotations": {
            "cluster-autoscaler.kwok.nodegroup/min-count": "0",
            "cluster-autoscaler.kwok.nodegroup/max-count": str(MOST),
            "cluster-autoscaler.kwok.nodegroup/desired-count": "0",
        },
    },
    "spec": {},
    "status": {
        "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
        "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
    },
}
PROVIDER = {
    "apiVersion": "v1alpha1",
    "readNodesFrom": "configmap",
    "nodegroups": {"fromNodeLabelKey": "pool"},
    "nodes": {"skipTaint": True},
    "configmap": {"name": "kwok-provider-templates"},
}

BUFFERS_PATH = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers"
BUFFERS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "capacitybuffers.autoscaling.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/autoscaler"},
    },
    "spec": {
        "group": "autoscaling.x-k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "CapacityBuffer", "listKind": "CapacityBufferList", "plural": "capacitybuffers",
                  "singular": "capacitybuffer"},
        "versions": [{
            "name": "v1beta1", "served": True, "storage": True, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"spec": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {
                        "provisioningStrategy": {"type": "string", "default": "buffer.x-k8s.io/active-capacity"},
                    },
                }},
            }},
        }],
    },
}  # fmt: skip
"""Its kind, with any content and the default that the autoscaler counts on."""


class World:
    """The cluster as kubelets, kube-scheduler and the syncer would move it: one `turn` at a time."""

    def __init__(self, apiserver: Apiserver) -> None:
        self.apiserver = apiserver
        self.nodes_seen: set[str] = set()
        self.busy: set[str] = set()
        """Nodes on which a job runs; those that come get one as long as jobs want nodes."""
        self.jobs_want = 0
        """How many nodes they want in all."""
        self._wrote: object = None
        self._written_s = 0.0

    def items(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.apiserver.ask("admin", "GET", path).json()["items"]
        return found

    def patch(self, path: str, body: object) -> None:
        answer = self.apiserver.ask("admin", "PATCH", path, body)
        assert answer.is_success or answer.status_code in (404, 409), answer.text

    @property
    def nodes(self) -> dict[str, dict[str, Any]]:
        return {node["metadata"]["name"]: node for node in self.items("/api/v1/nodes")}

    @property
    def slurmd_pods(self) -> list[dict[str, Any]]:
        return self.items(f"{PODS}?labelSelector={names.LABEL_ROLE}={names.ROLE_COMPUTE}")

    @property
    def placeholders(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.items(f"{PODS}?labelSelector={names.LABEL_WANTED}")]

    @property
    def asked(self) -> int:
        """How many nodes something stands for."""
        found = self.apiserver.ask("admin", "GET", BUFFERS_PATH)
        buffers = found.json()["items"] if found.is_success else []
        return len(self.placeholders) + sum(each["spec"]["replicas"] for each in buffers)

    @property
    def events(self) -> list[tuple[str, str]]:
        found = self.items("/apis/events.k8s.io/v1/namespaces/default/events")
        return [(event["reason"], event.get("note", "")) for event in found]

    def marks(self, node: str) -> set[str]:
        return {*names.AUTOSCALER_MARKS} & self.nodes[node]["metadata"].get("annotations", {}).keys()

    def until(self, condition: Callable[[], object], *, timeout_s: float = 120) -> None:
        def moved() -> object:
            self.turn()
            return condition()

        if not wait_until(moved, timeout_s=timeout_s, every_s=0.3):
            raise AssertionError(f"nodes {[*self.nodes]}, asked for {self.asked}, events {self.events}")

    def turn(self) -> None:
        """What has become of nodes and pods; and what jobs lack, once it has changed."""
        self._boot()
        pods = self.slurmd_pods
        for pod in pods:
            self._run(pod)
        if self.jobs_want:
            self.busy |= {pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}
        lacking = max(self.jobs_want - sum(1 for pod in pods if "deletionTimestamp" not in pod["metadata"]), 0)
        growth = {"wantedNodes": lacking, "requests": [{"job": "7", "nodes": lacking}] if lacking else []}
        if growth != self._wrote or self._written_s + 60 < time.monotonic():
            self.patch(f"{NODESETS}/compute/status", {"status": {"growth": {**growth, "seen": rfc3339(utc_now())}}})
            self._written_s = time.monotonic()
            self._wrote = growth

    def _boot(self) -> None:
        for name, node in self.nodes.items():
            if "kubernetes.io/hostname" not in node["metadata"]["labels"]:
                self.nodes_seen.add(name)
                labels = {"kubernetes.io/hostname": name}
                # The apiserver makes each Node with the taint not-ready; the node lifecycle controller takes it off.
                self.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}, "spec": {"taints": []}})
                address = {"type": "InternalIP", "address": f"10.0.12.{len(self.nodes_seen)}"}
                self.patch(f"/api/v1/nodes/{name}/status", {"status": {"addresses": [address]}})

    def _run(self, pod: dict[str, Any]) -> None:
        name, meta = pod["metadata"]["name"], pod["metadata"]
        node = node_of(msgspec.convert(pod, Pod))
        if "deletionTimestamp" in meta or node not in self.nodes:
            self.apiserver.ask("admin", "DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
            return
        if not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            self.apiserver.ask(
                "admin", "POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target}
            )
            return
        token = meta.get("annotations", {}).get(names.ANNOTATION_PENDING_DELETION)
        is_closed = token is not None or meta.get("annotations", {}).get(names.ANNOTATION_CORDON) is not None
        told = {
            "Ready": "True", names.READINESS_GATE: "True", names.CONDITION_CORDON: "False",
            names.CONDITION_NOT_RESPONDING: "False", names.CONDITION_DRAIN: str(is_closed),
            names.CONDITION_RUNNING: str(node in self.busy),
        }  # fmt: skip
        before = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
        if before != told:
            conditions = [{"type": type_, "status": status} for type_, status in told.items()]
            self.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": conditions}})
        elif token is not None and node not in self.busy:
            receipt = {names.ANNOTATION_DRAINED: token, names.ANNOTATION_DRAINED_AT: rfc3339(utc_now())}
            self.patch(f"{PODS}/{name}", {"metadata": {"annotations": receipt}})


@pytest.fixture
def apiserver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Apiserver]:
    """With the Cluster Autoscaler at work on it, which looks every second."""
    with alone(tmp_path, {OPERATOR: "system:serviceaccount:research:demo-operator"}) as apiserver:
        apiserver.install(
            render("sunkpy", {"nodeSetNamespaces": ["default"]}), "nodesets.sunkpy.dev", "-operator", "-operator-token"
        )
        apiserver.install([BUFFERS], BUFFERS["metadata"]["name"])
        apiserver.make_account("default")
        config = {"kwok-provider-config": {"config": PROVIDER}, "kwok-provider-templates": {"templates": {
            "apiVersion": "v1", "kind": "List", "items": [MACHINE]}}}  # fmt: skip
        for name, data in config.items():
            body = {"metadata": {"name": name}, "data": {key: json.dumps(value) for key, value in data.items()}}
            apiserver.make(f"{NAMESPACE}/configmaps", body)
        monkeypatch.setenv("KUBECONFIG", str(apiserver.kubeconfig("admin")))
        monkeypatch.setenv("KWOK_PROVIDER_MODE", "local")
        monkeypatch.setenv("POD_NAMESPACE", "default")
        apiserver.start(
            PROGRAM, "--cloud-provider=kwok", f"--kubeconfig={apiserver.kubeconfig('admin')}", "--namespace=default",
            "--leader-elect=false", "--address=127.0.0.1:0", "--v=1", "--scan-interval=1s",
            "--frequent-loops-enabled=false", "--new-pod-scale-up-delay=0s", "--scale-down-delay-after-add=1s",
            "--scale-down-delay-after-delete=0s", "--scale-down-unneeded-time=3s",
            "--unremovable-node-recheck-timeout=1s", "--node-delete-delay-after-taint=1s",
            "--capacity-buffer-controller-enabled", "--capacity-buffer-pod-injection-enabled",
        )  # fmt: skip
        yield apiserver


@pytest.fixture
async def world(apiserver: Apiserver, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """A NodeSet without nodes, and the operator, with the rights of its chart."""
    template = {"metadata": {}, "spec": {"nodeSelector": {"pool": POOL}, "containers": [
        {"name": "slurmd", "image": "slurmd", "resources": {"requests": {"cpu": "100m"}}}]}}  # fmt: skip
    growth = {"ask": "placeholders", "potential": MOST + 2, "releaseAfterSeconds": 3}
    nodeset = {
        "apiVersion": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "metadata": {"name": "compute", "namespace": "default"},
        "spec": {"cluster": "c1", "template": template, "growth": growth},
    }  # fmt: skip
    assert wait_until(lambda: apiserver.ask("admin", "POST", NODESETS, nodeset).is_success, timeout_s=60)
    monkeypatch.setenv("KUBECONFIG", str(apiserver.kubeconfig(OPERATOR)))
    async with await Kube.connect(apiserver.kubeconfig(OPERATOR)) as kube:
        running = Process(OPERATOR, OperatorSettings())
        term = asyncio.create_task(Term(kube, running, OperatorSettings(), OperatorMetrics(running.registry)).run())
        yield World(apiserver)
        term.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await term


def from_zero_and_back(world: World, ask: str) -> None:
    world.patch(f"{NODESETS}/compute", {"spec": {"growth": {"ask": ask}}})
    world.jobs_want = MOST
    world.until(lambda: len(world.slurmd_pods) == len(world.busy) == MOST and not world.asked)
    assert len(world.nodes_seen) == MOST, "none was bought twice"
    first = min(world.nodes)
    world.jobs_want, world.busy = 0, {first}
    world.until(lambda: [*world.nodes] == [first])
    assert world.marks(first) == {*names.AUTOSCALER_MARKS}
    assert [node_of(msgspec.convert(pod, Pod)) for pod in world.slurmd_pods] == [first], "a busy node is not taken"
    world.busy.clear()
    world.until(lambda: not world.nodes and not world.slurmd_pods)
    assert len(world.nodes_seen) == MOST


@pytest.mark.parametrize("ask", ["placeholders", "capacityBuffer"])
async def test_nodes_come_for_jobs_and_go_when_nothing_runs_there(world: World, ask: str) -> None:
    await asyncio.to_thread(from_zero_and_back, world, ask)


def more_than_there_can_be(world: World) -> None:
    world.jobs_want = MOST + 2
    world.until(lambda: len(world.slurmd_pods) == MOST)
    world.until(lambda: any(reason == "NodesRefused" for reason, _ in world.events), timeout_s=90)
    note = next(note for reason, note in world.events if reason == "NodesRefused")
    assert "NotTriggerScaleUp" in note
    assert "max node group size reached" in note
    assert len(world.placeholders) == 2
    assert len(world.nodes_seen) == MOST


async def test_an_autoscaler_that_may_not_buy_more_is_heard_within_a_minute(world: World) -> None:
    await asyncio.to_thread(more_than_there_can_be, world)

"""Nodes come and go with the real Cluster Autoscaler, on a real apiserver: 0 → 3 → 0.

What a kubelet, kube-scheduler and the syncer would write of nodes and pods, the test writes; the operator is whole.
`BENCH=growth` does the same with all of sunkpy and with Slurm.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from devcluster.waiting import wait_until
from sunkpy.core import names
from sunkpy.core.model.growth import GrowthRequest, GrowthStatus
from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.kube.client import Kube
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.operator.settings import OperatorSettings
from sunkpy.operator.term import Term
from sunkpy.runtime.process import Process
from tests.integration.apiserver import Apiserver, alone
from tests.integration.cluster_autoscaler import POOL, PROGRAM, Kubelets, autoscale, slurmd_node
from tests.polling import until
from tests.unit.charts.rendering import render

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    pytest.mark.skipif(not PROGRAM, reason="needs SUNKPY_CLUSTER_AUTOSCALER"),
]

OPERATOR = "operator"
NODESETS = "/apis/sunkpy.dev/v1alpha1/namespaces/default/nodesets"
MOST = 3


class World(Kubelets):
    """The cluster as the syncer would move it, too: one `turn` at a time."""

    def __init__(self, apiserver: Apiserver) -> None:
        super().__init__(apiserver, "default")
        self.busy: set[str] = set()
        """Nodes on which a job runs; those that come get one as long as jobs want nodes."""
        self.jobs_want = 0
        """How many nodes they want in all."""
        self._wrote: object = None
        self._written_s = 0.0

    @property
    def events(self) -> list[tuple[str, str]]:
        found = self.items("/apis/events.k8s.io/v1/namespaces/default/events")
        return [(event["reason"], event.get("note", "")) for event in found]

    def marks(self, node: str) -> set[str]:
        annotations: dict[str, str] = self.nodes[node]["metadata"].get("annotations", {})
        return {*names.AUTOSCALER_MARKS} & annotations.keys()

    def until(self, condition: Callable[[], object], *, timeout_s: float = 120) -> None:
        def moved() -> object:
            self.turn()
            return condition()

        if not wait_until(moved, timeout_s=timeout_s, every_s=0.3):
            raise AssertionError(f"nodes {[*self.nodes]}, asked for {self.asked}, events {self.events}")

    def turn(self) -> None:
        """What has become of nodes and pods; and what jobs lack, once it has changed."""
        self.boot()
        pods = self.slurmd_pods
        for pod in pods:
            self._run(pod)
        if self.jobs_want:
            self.busy |= {pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}
        there = sum(1 for pod in pods if "deletionTimestamp" not in pod["metadata"])
        lacking = max(self.jobs_want - there, 0)
        requests = (GrowthRequest(job="7", nodes=lacking),) if lacking else ()
        growth = msgspec.to_builtins(GrowthStatus(wanted_nodes=lacking, counted_nodes=there, requests=requests))
        if growth != self._wrote or self._written_s + 60 < time.monotonic():
            self.patch(f"{NODESETS}/compute/status", {"status": {"growth": {**growth, "seen": rfc3339(utc_now())}}})
            self._written_s = time.monotonic()
            self._wrote = growth

    def _run(self, pod: dict[str, Any]) -> None:
        path, meta = f"{self.pods_path}/{pod['metadata']['name']}", pod["metadata"]
        node = slurmd_node(pod)
        if "deletionTimestamp" in meta or node not in self.nodes:
            self.remove(pod)
            return
        if not pod["spec"].get("nodeName"):
            self.bind(pod)
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
            self.patch(f"{path}/status", {"status": {"phase": "Running", "conditions": conditions}})
        elif token is not None and node not in self.busy:
            receipt = {names.ANNOTATION_DRAINED: token, names.ANNOTATION_DRAINED_AT: rfc3339(utc_now())}
            self.patch(path, {"metadata": {"annotations": receipt}})


@contextlib.contextmanager
def with_operator(folder: Path) -> Iterator[Apiserver]:
    """An apiserver with the rights of the operator's chart."""
    with alone(folder, {OPERATOR: "system:serviceaccount:research:demo-operator"}) as apiserver:
        apiserver.install(
            render("sunkpy", {"nodeSetNamespaces": ["default"]}), "nodesets.sunkpy.dev", "-operator", "-operator-token"
        )
        apiserver.make_account("default")
        yield apiserver


@contextlib.asynccontextmanager
async def growing(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """A NodeSet without nodes, and the operator, while the block runs."""
    apiserver = world.apiserver
    template = {"metadata": {}, "spec": {"nodeSelector": {"pool": POOL}, "containers": [
        {"name": "slurmd", "image": "slurmd", "resources": {"requests": {"cpu": "100m"}}}]}}  # fmt: skip
    growth = {"ask": "placeholders", "potential": MOST + 2, "releaseAfterSeconds": 3}
    nodeset = {
        "apiVersion": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "metadata": {"name": "compute", "namespace": "default"},
        "spec": {"cluster": "c1", "template": template, "growth": growth},
    }  # fmt: skip
    assert wait_until(lambda: apiserver.ask("admin", "POST", NODESETS, nodeset).is_success, timeout_s=60)
    monkeypatch.setenv("KUBECONFIG", str(apiserver.kubeconfig(OPERATOR)))
    before = _sockets()
    async with await Kube.connect(apiserver.kubeconfig(OPERATOR)) as kube:
        running = Process(OPERATOR, OperatorSettings())
        term = asyncio.create_task(Term(kube, running, OperatorSettings(), OperatorMetrics(running.registry)).run())
        yield world
        term.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await term

    async def is_closed() -> bool:
        return _sockets() <= before

    await until(is_closed, timeout_s=10, what="the operator's connections are closed, a moment after the operator ends")


def _sockets() -> int:
    """How many this process has."""
    return sum(
        link.is_symlink() and os.readlink(link).startswith("socket:") for link in Path("/proc/self/fd").iterdir()
    )


@pytest.fixture
def apiserver(tmp_path: Path) -> Iterator[Apiserver]:
    """An apiserver with the Cluster Autoscaler at work on it."""
    with with_operator(tmp_path) as apiserver:
        autoscale(apiserver, most=MOST)
        yield apiserver


@pytest.fixture
async def world(apiserver: Apiserver, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """A cluster whose nodes the Cluster Autoscaler buys."""
    async with growing(World(apiserver), monkeypatch) as world:
        yield world


def from_zero_and_back(world: World, ask: str) -> None:
    world.patch(f"{NODESETS}/compute", {"spec": {"growth": {"ask": ask}}})
    world.jobs_want = MOST
    world.until(lambda: len(world.slurmd_pods) == len(world.busy) == MOST and not world.asked)
    assert len(world.bought) == MOST, "none was bought twice"
    first = min(world.nodes)
    world.jobs_want, world.busy = 0, {first}
    world.until(lambda: [*world.nodes] == [first])
    assert world.marks(first) == {*names.AUTOSCALER_MARKS}
    assert [slurmd_node(pod) for pod in world.slurmd_pods] == [first], "a busy node is not taken"
    world.busy.clear()
    world.until(lambda: not world.nodes and not world.slurmd_pods)
    assert len(world.bought) == MOST


@pytest.mark.parametrize("ask", ["placeholders", "capacityBuffer", "provisioningRequest"])
async def test_nodes_come_for_jobs_and_go_when_nothing_runs_there(world: World, ask: str) -> None:
    await asyncio.to_thread(from_zero_and_back, world, ask)


def more_than_there_can_be(world: World, ask: str) -> None:
    world.patch(f"{NODESETS}/compute", {"spec": {"growth": {"ask": ask}}})
    world.jobs_want = MOST + 2
    world.until(lambda: len(world.slurmd_pods) == MOST)
    world.until(lambda: any(reason == "NodesRefused" for reason, _ in world.events), timeout_s=90)
    note = next(note for reason, note in world.events if reason == "NodesRefused")
    assert "NotTriggerScaleUp" in note
    assert "max node group size reached" in note
    assert world.asked == 2
    assert len(world.bought) == MOST


@pytest.mark.parametrize("ask", ["placeholders", "capacityBuffer"])
async def test_an_autoscaler_that_may_not_buy_more_is_heard_within_a_minute(world: World, ask: str) -> None:
    await asyncio.to_thread(more_than_there_can_be, world, ask)


def a_job_that_needs_more_than_there_can_be(world: World) -> None:
    world.patch(f"{NODESETS}/compute", {"spec": {"growth": {"ask": "provisioningRequest"}}})
    world.jobs_want = MOST + 2
    world.until(lambda: any(reason == "NodesRefused" for reason, _ in world.events), timeout_s=90)
    note = next(note for reason, note in world.events if reason == "NodesRefused")
    assert note.startswith(f"asked autoscalers for {MOST + 2} nodes by ProvisioningRequest ")
    assert "CapacityIsNotFound: " in note
    assert not world.bought, "all of its nodes come, or none"


async def test_of_a_job_whose_nodes_cannot_all_come_none_is_bought(world: World) -> None:
    await asyncio.to_thread(a_job_that_needs_more_than_there_can_be, world)

"""What the syncer says on NodeSets of nodes that jobs lack, on a real apiserver with the rights of the chart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from devcluster.waiting import wait_until
from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.figures.nodes import PartitionRow
from sunkpy.core.figures.statistics import Statistics
from sunkpy.core.growth.waiting import WaitingJob
from sunkpy.core.model.growth import GrowthRequest
from sunkpy.core.model.objects import Pod
from sunkpy.core.nodeset.spec import NodeSet, NodeSetStatus
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import Forbidden
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.operator import bodies
from sunkpy.syncer.figures import Read
from sunkpy.syncer.growth import GrowthWriter
from sunkpy.syncer.metrics import SyncerMetrics
from tests.integration.apiserver import Apiserver, alone
from tests.unit.charts.rendering import of_kind, render

pytestmark = pytest.mark.integration

SYNCER = "syncer"
NODESETS = "/apis/sunkpy.dev/v1alpha1/namespaces/default/nodesets"
RIGHTS = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
READ = Read(
    nodes={},
    jobs=[],
    unread_jobs=0,
    partitions=[PartitionRow(name="main", nodes=("compute_potential_1a2b3c_1",))],
    statistics=Statistics(),
)


@pytest.fixture(scope="module")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    users = {SYNCER: "system:serviceaccount:research:demo-syncer"}
    with alone(tmp_path_factory.mktemp("growth"), users) as apiserver:
        apiserver.install(render("sunkpy"), "nodesets.sunkpy.dev")
        growth = {"potential": 9, "shape": {"cpus": 8, "memory": "8Gi", "gres": "gpu:h100:8"}}
        chart = render("slurm", {"nodeSets": {"compute": {"growth": growth}}})
        for kind, plural in (("Role", "roles"), ("RoleBinding", "rolebindings")):
            apiserver.make(f"{RIGHTS}/{plural}", of_kind(chart, kind)["demo-syncer"])
        given = of_kind(chart, "NodeSet")["compute"]
        assert wait_until(lambda: apiserver.ask("admin", "POST", NODESETS, given).status_code == 201, timeout_s=60)
        yield apiserver


@pytest.fixture
async def kube(apiserver: Apiserver) -> AsyncIterator[Kube]:
    async with await Kube.connect(apiserver.kubeconfig(SYNCER)) as kube:
        yield kube


def nodeset(apiserver: Apiserver) -> NodeSet:
    return msgspec.json.decode(apiserver.ask("admin", "GET", f"{NODESETS}/compute").content, type=NodeSet)


async def test_the_syncer_writes_and_withdraws_it_beside_the_operator(apiserver: Apiserver, kube: Kube) -> None:
    nodesets, pods = Informer(kube, paths.nodesets("default"), NodeSet), Informer(kube, paths.pods("default"), Pod)
    tasks = {asyncio.create_task(each.run()) for each in (nodesets, pods)}
    await asyncio.wait_for(asyncio.gather(nodesets.synced.wait(), pods.synced.wait()), 60)
    growth = GrowthWriter(
        kube,
        EventRecorder(kube, component="syncer", instance="one"),
        SyncerMetrics(CollectorRegistry()),
        cluster=nodeset(apiserver).spec.cluster,
        nodesets=nodesets,
        pods=pods,
        read_soon=lambda: None,
        offered=dict,
    )
    asked = WaitingJob(id=7, label="7", partitions=("main",), nodes=3, per_node={"cpu": 8000, "gpu:h100": 8})
    waits = JobRow(id=7, state=frozenset({"PENDING"}), partition="main", waits=asked)
    too_large = msgspec.structs.replace(waits, id=8, waits=msgspec.structs.replace(asked, id=8, label="8", nodes=99))
    for _ in range(2):
        await growth.check(msgspec.structs.replace(READ, jobs=[waits, too_large]))
    said = nodeset(apiserver).status.growth
    assert said is not None
    assert (said.wanted_nodes, said.requests) == (3, (GrowthRequest(job="7", nodes=3),))
    assert said.reason == "job 8: needs 99 nodes, and there can be 9"
    body = bodies.nodeset_status(NodeSetStatus(number_feasible=4))
    assert apiserver.ask("admin", "PATCH", f"{NODESETS}/compute/status", body).is_success
    assert (nodeset(apiserver).status.number_feasible, nodeset(apiserver).status.growth) == (4, said)
    for _ in range(2):
        await growth.check(READ)
    assert (nodeset(apiserver).status.number_feasible, nodeset(apiserver).status.growth) == (4, None)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_the_syncer_may_change_nothing_else_of_a_nodeset(apiserver: Apiserver, kube: Kube) -> None:
    path = paths.nodeset("default", "compute")
    with pytest.raises(Forbidden):
        await kube.patch(path, {"spec": {"replicas": 0}})
    wanted: dict[str, Any] = {"spec": {"replicas": 0}, "status": {}}
    await kube.patch(paths.status(path), wanted)
    assert nodeset(apiserver).spec.replicas is None

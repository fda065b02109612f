"""Pods that are there already when one of their name is to be created, against an apiserver over HTTP."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from sunkpy.core import names
from sunkpy.core.nodeset.actions import CreatePod
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.operator.create import PodCreator
from sunkpy.operator.memory import Memory
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.operator.pod_index import PodIndex
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import answering

POD = "gpu-012-001"
DELETED = {"deletionTimestamp": "2026-11-20T12:00:00Z"}


@pytest.fixture
async def api(tmp_path):
    server = Apiserver()
    labels = {names.LABEL_NODESET: "gpu", names.LABEL_CLUSTER: "c1", names.LABEL_ROLE: names.ROLE_COMPUTE,
              names.LABEL_SLURM_NODE: POD}  # fmt: skip
    server.put("pods", {"metadata": {"name": POD, "namespace": "slurm", "labels": labels}, "spec": {"nodeName": "n1"}})
    async with answering(server.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        server.kube = kube
        yield server


def known_nodeset(api: Apiserver) -> NodeSet:
    """As the operator's watch has shown it."""
    spec = {"cluster": "c1", "template": {"spec": {"containers": [{"name": "slurmd", "image": "x"}]}}}
    body: dict[str, Any] = {"metadata": {"name": "gpu", "namespace": "slurm"}, "spec": spec}
    api.put("nodesets", body)
    return msgspec.convert(api.objects["nodesets", "slurm", "gpu"], NodeSet)


async def create(api: Apiserver, nodeset: NodeSet) -> list[dict[str, Any]]:
    """Owners of the pod after the NodeSet wanted to create one of its name."""
    events = EventRecorder(api.kube, component="operator", instance="one")
    creator = PodCreator(
        api.kube, pods=PodIndex(), memory=Memory(), events=events, metrics=OperatorMetrics(CollectorRegistry())
    )
    body = {"metadata": {"name": POD, "namespace": "slurm"}, "spec": {}}
    await creator.create_all(nodeset, [CreatePod("n1", POD, body)])
    return api.find("pods", POD)["metadata"].get("ownerReferences", [])


async def test_a_pod_that_was_left_behind_gets_the_nodeset_as_its_controller(api):
    nodeset = known_nodeset(api)
    assert await create(api, nodeset) == [nodeset.controller_reference]
    assert await create(api, nodeset) == [nodeset.controller_reference]


async def test_a_nodeset_that_is_being_deleted_by_now_takes_over_nothing(api):
    nodeset = known_nodeset(api)
    api.change("nodesets", "slurm", "gpu", {"metadata": {"finalizers": ["orphan"], **DELETED}})
    assert await create(api, nodeset) == []


@pytest.mark.parametrize("uid", ["another", None])
async def test_a_nodeset_that_is_gone_takes_over_nothing(api, uid):
    nodeset = known_nodeset(api)
    del api.objects["nodesets", "slurm", "gpu"]
    if uid is not None:
        known_nodeset(api)
    assert await create(api, nodeset) == []


async def test_a_pod_that_is_going_is_left_to_go(api):
    nodeset = known_nodeset(api)
    api.change("pods", "slurm", POD, {"metadata": {"finalizers": ["x"], **DELETED}})
    assert await create(api, nodeset) == []

"""What is written of a Node onto its slurmd pod, and when not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.operator.node_writer import NodeWriter
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import answering

NAME = "gpu-012-001"
EVICTABLE = {names.LABEL_EVICTABLE: "true"}


class Rig:
    """A slurmd pod of an apiserver, and who writes to it."""

    def __init__(self, api: Apiserver, kube: Kube) -> None:
        self.api = api
        self.kube = kube
        self.writer = NodeWriter(kube, EventRecorder(kube, component="operator", instance="one"))

    async def seen(self) -> Pod:
        return await self.kube.get(paths.pod("slurm", NAME), Pod)

    @property
    def labels(self) -> dict[str, str]:
        return self.api.find("pods", NAME)["metadata"].get("labels", {})


@pytest.fixture
async def rig(tmp_path: Path):
    api = Apiserver()
    api.put("pods", {"metadata": {"name": NAME, "namespace": "slurm"}, "spec": {}, "status": {}})
    async with answering(api.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        yield Rig(api, kube)


async def test_a_pod_that_has_a_job_by_now_is_not_opened_to_eviction(rig: Rig) -> None:
    idle = await rig.seen()
    told = [{"type": names.CONDITION_RUNNING, "status": "True"}]
    rig.api.change("pods", "slurm", NAME, {"status": {"conditions": told}})
    assert await rig.writer.patch_pod(idle, annotations={}, labels=EVICTABLE), "to be decided again"
    assert rig.labels == {}
    assert await rig.writer.patch_pod(await rig.seen(), annotations={}, labels=EVICTABLE) is None
    assert rig.labels == EVICTABLE


async def test_a_pod_is_closed_to_eviction_whatever_has_changed_since(rig: Rig) -> None:
    await rig.writer.patch_pod(await rig.seen(), annotations={}, labels=EVICTABLE)
    seen = await rig.seen()
    rig.api.change("pods", "slurm", NAME, {"status": {"phase": "Running"}})
    await rig.writer.patch_pod(seen, annotations={}, labels=dict.fromkeys(EVICTABLE))
    assert rig.labels == {}


async def test_the_next_pod_of_that_name_is_told_nothing_that_was_meant_for_another(rig: Rig) -> None:
    seen = await rig.seen()
    earlier = msgspec.structs.replace(seen, metadata=msgspec.structs.replace(seen.metadata, uid="earlier"))
    assert await rig.writer.patch_pod(earlier, annotations={names.ANNOTATION_CORDON: "fan"}, labels={})
    assert "annotations" not in rig.api.find("pods", NAME)["metadata"]

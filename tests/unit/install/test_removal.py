from __future__ import annotations

from pathlib import Path

import pytest

from sunkpy.core import names
from sunkpy.install.removal import Jobs, StillThere, remove_nodesets
from sunkpy.kube.client import Kube
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import answering


def cluster(*nodesets: str, held: bool) -> Apiserver:
    """NodeSets of a release that go when they are deleted, unless a job holds them, and a slurmd pod that runs it."""
    api = Apiserver()
    for name in nodesets:
        meta = {"name": name, "namespace": "slurm", "labels": {"a": "b"}}
        api.put("nodesets", {"metadata": meta | ({"finalizers": [names.FINALIZER_NODESET]} if held else {})})
    running = [{"type": names.CONDITION_RUNNING, "status": "True"}]
    meta = {"name": "gpu-001", "namespace": "slurm", "labels": {names.LABEL_ROLE: names.ROLE_COMPUTE}}
    api.put("pods", {"metadata": meta, "status": {"phase": "Running", "conditions": running}})
    return api


async def remove(api: Apiserver, tmp_path: Path, *, timeout_s: float, jobs: Jobs = Jobs.AWAIT) -> list[str]:
    said: list[str] = []
    async with answering(api.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        await remove_nodesets(kube, namespace="slurm", selector="a=b", timeout_s=timeout_s, jobs=jobs, say=said.append)
    return said


async def test_all_nodesets_of_the_release_are_deleted_and_waited_for(tmp_path: Path) -> None:
    api = cluster("a", "b", held=False)
    api.put("nodesets", {"metadata": {"name": "other", "namespace": "slurm"}})
    said = await remove(api, tmp_path, timeout_s=10)
    assert api.deleted == ["a", "b"]
    assert api.names("nodesets") == ["other"]
    assert len(said) == 2


async def test_who_does_not_wait_for_jobs_gives_the_operator_leave_to_end_them(tmp_path: Path) -> None:
    api = cluster("a", "b", held=True)
    with pytest.raises(StillThere):
        await remove(api, tmp_path, timeout_s=0.3, jobs=Jobs.END)
    for name in ("a", "b"):
        assert api.find("nodesets", name)["spec"] == {"drainTimeoutSeconds": 1, "drainTimeoutPolicy": "Force"}
    assert api.deleted == ["a", "b"]


async def test_no_nodeset_is_no_wait(tmp_path: Path) -> None:
    assert await remove(cluster(held=False), tmp_path, timeout_s=10) == []


async def test_a_nodeset_held_by_a_job_is_named_with_the_busy_node(tmp_path: Path) -> None:
    with pytest.raises(StillThere, match=r"NodeSets a are not gone .* run on: gpu-001"):
        await remove(cluster("a", held=True), tmp_path, timeout_s=0.3)

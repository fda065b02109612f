"""Pods with GPUs by number where sunkpy's own device plugin hands them out, on the whole scheduler."""

import pytest

from sunkpy.core import names
from sunkpy.core.gang.job.request import GpuSharing
from tests.unit.scheduler.world import World, leading

GPU = "nvidia.com/gpu"


@pytest.fixture
def world():
    """A node with four GPUs, of which the second has minor 3."""
    world = World()
    world.add_node(1, **{GPU: "4"})
    world.list_gpus(1, "nvidia0 GPU-a -", "nvidia3 GPU-b -", "nvidia4 - -", gres="gpu:4", cpus=4)
    return world


def leads(world, tmp_path):
    return leading(world, tmp_path, gpu_sharing=GpuSharing.PLUGIN)


def add_pod(world, name="web", *counts, **fields):
    containers = [
        {"name": f"c{at}", "resources": {"requests": {"cpu": "1", GPU: str(count)}}}
        for at, count in enumerate(counts or (1,))
    ]
    return world.add_pod(name, containers=containers, **fields)


def starts(world, name, indices):
    job = next(id for id, job in world.jobs.items() if f"default/{name}:" in job["comment"])
    count = len(indices.split(","))
    world.set_job(
        job, "RUNNING", nodes="n1", gres_detail=[f"gpu:{count}(IDX:{indices})"],
        job_resources={"nodes": {"allocation": [{"name": "n1", "cpus": {"count": 1}}]}},
    )  # fmt: skip


def notes_on(world, name="web"):
    notes = world.pod(name)["metadata"]["annotations"]
    return notes.get(names.ANNOTATION_GPU_INDICES), notes.get(names.ANNOTATION_DEVICES)


async def test_a_pod_is_bound_with_the_names_of_the_gpus_that_slurm_gave(world, tmp_path):
    add_pod(world, "web", 2)
    async with leads(world, tmp_path):
        await world.until(lambda: world.submissions)
        assert "exclusive" not in world.submissions[0].get("shared", [])
        starts(world, "web", "1,2")
        await world.until(lambda: world.bindings == [("web", "node-1")])
    assert notes_on(world) == ("1,2", "node-1/GPU-b,node-1/nvidia4")
    assert world.notes("GpusByCount") == []


async def test_a_pod_of_another_job_waits_until_the_kubelet_has_admitted_the_first(world, tmp_path):
    for name in ("web", "next"):
        add_pod(world, name)
    async with leads(world, tmp_path):
        await world.until(lambda: len(world.submissions) == 2)
        starts(world, "web", "0")
        await world.until(lambda: world.bindings == [("web", "node-1")])
        starts(world, "next", "1")
        await world.until(lambda: any(m.waits_since for each in world.term._ledger for m in each.members.values()))
        assert len(world.bindings) == 1
        pod = world.pod("web")
        pod["status"]["startTime"] = "2026-11-23T00:00:00Z"
        world.put("pods", pod)
        await world.until(lambda: world.bindings == [("web", "node-1"), ("next", "node-1")])


async def test_a_gpu_that_the_slurmd_has_not_published_is_given_back(world, tmp_path):
    add_pod(world)
    async with leads(world, tmp_path):
        await world.until(lambda: world.submissions)
        starts(world, "web", "3")
        await world.until(lambda: world.cancelled or world.signals)
        says = "Slurm gave gpu 3 of node node-1, and its slurmd has published 3"
        await world.until(lambda: says in str(world.pod()["status"].get("conditions")) or says in str(world.events))
    assert world.bindings == []


async def test_a_pod_with_gpus_in_two_containers_is_refused(world, tmp_path):
    add_pod(world, "web", 1, 1)
    async with leads(world, tmp_path):
        says = f"pod web asks for {GPU} in several containers: let one of them have the GPUs"
        await world.until(lambda: says in str(world.pod()["status"].get("conditions")))
    assert world.submissions == []


async def test_a_pod_whose_job_was_replaced_by_one_with_other_gpus_is_evicted(world, tmp_path):
    noted = {names.ANNOTATION_GPU_INDICES: "0", names.ANNOTATION_DEVICES: "node-1/GPU-a"}
    pod = add_pod(world, annotations=noted, node="node-1", running=True)
    gives = {
        "nodes": "n1", "gres_detail": ["gpu:1(IDX:1)"],
        "job_resources": {"nodes": {"allocation": [{"name": "n1", "cpus": {"count": 1}}]}},
    }  # fmt: skip
    world.add_job(pod, "RUNNING", **gives)
    async with leads(world, tmp_path):
        await world.until(lambda: world.deleted == ["web"])

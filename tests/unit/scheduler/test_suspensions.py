"""Owners that are suspended when their gang is preempted, through the whole scheduler."""

import asyncio

import pytest

from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, leading

SUSPEND = {"sunkpy.dev/on-preemption": "suspend"}
NOTE = "sunkpy.dev/suspended-by"


@pytest.fixture
def world():
    world = World()
    world.hasten(resume_again_s=0.05)
    world.add_node(1)
    world.api.define("batch/v1", "Job", "jobs")
    return world


def add_owner(world, name="train", *, note="", **spec):
    meta = {"name": name, "namespace": "default", "annotations": {NOTE: note} if note else {}}
    return world.put("jobs", {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec, "status": {}})


def owner(world, name="train"):
    return world.api.objects["jobs", "default", name]


def note(world):
    return owner(world)["metadata"]["annotations"].get(NOTE)


async def start(world, call):
    """A pod of the Job that runs under its job; gives the job's id."""
    return await bound_pod(world, call, annotations=SUSPEND, owner=add_owner(world, suspend=False))


async def test_the_owner_is_suspended_and_resumed_when_its_pods_are_gone(world, tmp_path):
    async with leading(world, tmp_path, suspend_owners=True) as server, hook_client(server) as call:
        job_id = await start(world, call)
        world.set_job(job_id, "PREEMPTED", "COMPLETING")
        epilog = asyncio.ensure_future(call("epilog", job_id))
        await world.until(lambda: owner(world)["spec"]["suspend"])
        assert note(world) == "slurm:spec.suspend"
        await world.until(lambda: world.notes("PreemptionByScheduler"))
        (told,) = world.notes("PreemptionByScheduler")
        assert told == f"Slurm job {job_id} was preempted; Job train is suspended, and resumed when its pods are gone"
        assert world.deleted == []
        world.pod_ends("Failed")
        world.pod_is_gone()
        assert await epilog == (200, {"done": True})
        await world.until(lambda: not owner(world)["spec"]["suspend"])
        assert note(world) is None


async def test_pods_that_the_owner_does_not_take_back_are_evicted(world, tmp_path):
    world.hasten(again_s=0.2)
    async with leading(world, tmp_path, suspend_owners=True) as server, hook_client(server) as call:
        job_id = await start(world, call)
        world.set_job(job_id, "PREEMPTED", "COMPLETING")
        await world.until(lambda: world.deleted == ["web"])
        assert owner(world)["spec"]["suspend"]


async def test_a_job_that_was_cancelled_suspends_nobody(world, tmp_path):
    async with leading(world, tmp_path, suspend_owners=True) as server, hook_client(server) as call:
        job_id = await start(world, call)
        world.set_job(job_id, "CANCELLED", "COMPLETING")
        await world.until(lambda: world.deleted == ["web"])
        assert not owner(world)["spec"]["suspend"]


async def test_without_the_right_pods_are_evicted(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await start(world, call)
        world.set_job(job_id, "PREEMPTED", "COMPLETING")
        await world.until(lambda: world.deleted == ["web"])
        assert (owner(world)["spec"]["suspend"], note(world)) == (False, None)


async def test_a_new_leader_resumes_what_the_old_one_suspended_and_nothing_else(world, tmp_path):
    add_owner(world, suspend=True, note="slurm:spec.suspend")
    add_owner(world, "held", suspend=True)
    async with leading(world, tmp_path, suspend_owners=True):
        await world.until(lambda: not owner(world)["spec"]["suspend"])
        assert owner(world, "held")["spec"]["suspend"]

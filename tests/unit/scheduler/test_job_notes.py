"""Which job a pod waits with is noted on it, unless its binding says so soon."""

import pytest

from sunkpy.core import names
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, leading


@pytest.fixture
def world():
    world = World()
    for number in (1, 2):
        world.add_node(number)
    return world


def noted(world, name="web"):
    return world.pod(name)["metadata"].get("annotations", {}).get(names.ANNOTATION_JOB_ID)


async def test_a_pod_that_is_bound_soon_is_noted_by_its_binding_alone(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        assert noted(world) == str(job_id)
        assert "web" not in world.api.patched


async def test_a_pod_that_waits_is_noted_after_a_while(world, tmp_path):
    world.hasten(noted_after_s=0.05)
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: noted(world))
        assert noted(world) == str(*world.jobs)
        assert world.bindings == []


async def test_a_pod_of_the_same_name_is_not_noted_with_the_job_of_the_one_before(world, tmp_path):
    world.hasten(noted_after_s=0.3)
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: world.submissions)
        (old,) = world.jobs
        world.api.remove("pods", "default", "web")
        await world.until(lambda: world.cancelled == [old])
        world.add_pod()
        await world.until(lambda: noted(world))
        assert noted(world) == str(max(world.jobs)) != str(old)

"""What happens to a pod, or to the scheduler, while Slurm has not answered yet."""

import pytest

from tests.unit.scheduler.world import World, leading

KINDS = {"a pod that ends": {}, "a service": {"restartPolicy": "Always"}}


@pytest.fixture(params=KINDS)
def pod(request):
    return KINDS[request.param]


@pytest.fixture
def world():
    world = World()
    for number in (1, 2):
        world.add_node(number)
    world.slurm.room = "n1"
    return world


async def in_flight(world, pod):
    """A job is asked for, and Slurm does not answer yet."""
    world.slurm.takes_jobs.clear()
    world.add_pod(**pod)
    await world.until(lambda: world.slurm.waiting_submits == 1)


async def test_the_job_of_a_pod_that_went_while_it_was_asked_for_is_cancelled(world, tmp_path, pod):
    async with leading(world, tmp_path):
        await in_flight(world, pod)
        world.pod_vanishes()
        world.slurm.takes_jobs.set()
        await world.until(lambda: world.jobs and list(world.jobs) == world.cancelled)
        assert len(world.jobs) == 1


async def test_a_pod_that_was_made_again_while_a_job_was_asked_for_gets_its_own(world, tmp_path, pod):
    async with leading(world, tmp_path):
        await in_flight(world, pod)
        world.pod_vanishes()
        again = world.add_pod(**pod)
        world.slurm.takes_jobs.set()
        await world.until(lambda: len(world.jobs) == 2 and len(world.cancelled) == 1)
        (left,) = set(world.jobs) - set(world.cancelled)
        assert again["metadata"]["uid"] in world.jobs[left]["comment"]
        world.set_job(left, "RUNNING", nodes="n1", state_reason="None")
        await world.until(lambda: world.bindings == [("web", "node-1")])


async def test_the_job_of_a_pod_that_went_is_cancelled_though_the_answer_was_lost(world, tmp_path, pod):
    async with leading(world, tmp_path, sweep_seconds=0.2):
        world.lose_next_answer = True
        await in_flight(world, pod)
        world.pod_vanishes()
        world.slurm.takes_jobs.set()
        await world.until(lambda: world.jobs and list(world.jobs) == world.cancelled)
        assert len(world.jobs) == 1


async def test_a_pod_is_bound_under_the_job_that_an_earlier_leader_was_granted(world, tmp_path, pod):
    world.api.loses_bindings = True
    async with leading(world, tmp_path):
        world.add_pod(**pod)
        await world.until(lambda: world.jobs)
        (job,) = world.jobs
        world.set_job(job, "RUNNING", nodes="n1", state_reason="None")
    world.api.loses_bindings = False
    async with leading(world, tmp_path):
        await world.until(lambda: world.bindings == [("web", "node-1")])
        assert (list(world.jobs), world.cancelled) == ([job], [])

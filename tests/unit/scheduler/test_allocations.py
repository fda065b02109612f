"""Services get their nodes at once where Slurm has room, and wait in the queue where it has none."""

import pytest

from sunkpy.core import names
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, leading

PARTITION = "sunkpy.dev/partition"


@pytest.fixture
def world():
    world = World()
    world.add_node(1)
    world.add_node(2)
    return world


def add_service(world, name="web", **pod):
    return world.add_pod(name, restartPolicy="Always", **pod)


def running(world):
    return [job_id for job_id, job in world.jobs.items() if job["job_state"] == ["RUNNING"]]


async def granted_and_bound(world, call, name="web"):
    """The service runs on n1; gives its job."""
    world.slurm.room = "n1"
    add_service(world, name)
    await world.until(lambda: running(world))
    (job_id,) = running(world)
    assert await call("prolog", job_id) == (200, {"done": True})
    await world.until(lambda: (name, "node-1") in world.bindings)
    world.set_job(job_id, "RUNNING", state_reason="None")
    return job_id


async def test_a_service_is_bound_where_slurm_grants_it_room(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await granted_and_bound(world, call)
        assert world.bindings == [("web", "node-1")]
        assert world.pod()["metadata"]["annotations"][names.ANNOTATION_JOB_ID] == str(job_id)
        assert (len(world.allocations), world.submissions) == (1, [])


async def test_a_service_for_which_there_is_no_room_waits_in_the_queue(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        add_service(world)
        await world.until(lambda: world.submissions)
        (refused, queued) = world.jobs
        assert world.jobs[refused]["job_state"] == ["FAILED"]
        assert "sleep infinity" in world.submissions[0]["script"]
        world.set_job(queued, "RUNNING", nodes="n1", batch_flag=True)
        assert await call("prolog", queued) == (200, {"done": True})
        await world.until(lambda: world.bindings == [("web", "node-1")])
        assert (len(world.allocations), len(world.submissions)) == (1, 1)


async def test_nothing_is_tried_for_a_while_where_one_was_refused(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        add_service(world, "first")
        await world.until(lambda: len(world.submissions) == 1)
        _, queued = world.jobs
        world.set_job(queued, "RUNNING", nodes="n1")
        assert await call("prolog", queued) == (200, {"done": True})
        world.slurm.room = "n2"
        add_service(world, "second")
        await world.until(lambda: len(world.submissions) == 2)
        assert len(world.allocations) == 1


async def test_the_pods_of_an_allocation_outlive_their_slurmd_pod(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        await granted_and_bound(world, call)
        world.pod_runs()
        world.remove("pods", "slurm", "slurmd-1")
        world.slurm.room = "n2"
        add_service(world, "later")
        await world.until(lambda: len(running(world)) == 2)
        assert await call("prolog", max(running(world)), node=2) == (200, {"done": True})
        assert (world.deleted, world.cancelled) == ([], [])


async def test_a_pod_whose_exit_code_counts_is_queued(world, tmp_path):
    world.slurm.room = "n1"
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: world.submissions)
        assert world.allocations == []


async def test_it_can_be_turned_off(world, tmp_path):
    world.slurm.room = "n1"
    async with leading(world, tmp_path, immediate_allocation=False):
        add_service(world)
        await world.until(lambda: world.submissions)
        assert world.allocations == []


@pytest.mark.parametrize("is_heard", [True, False])
async def test_an_allocation_whose_answer_was_lost_is_found_and_not_repeated(world, tmp_path, is_heard):
    """By its prolog, or by its comment when the scheduler may try again."""
    world.hasten(late_submit_s=0.05)
    world.lose_next_answer, world.slurm.room = True, "n1"
    world.slurm.room_waits_for = "Prolog" if is_heard else "None"
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        add_service(world)
        await world.until(lambda: world.jobs)
        if is_heard:
            assert await call("prolog", *world.jobs) == (200, {"done": True})
        await world.until(lambda: world.bindings == [("web", "node-1")])
        assert (len(world.jobs), len(world.allocations), world.submissions) == (1, 1, [])


async def test_a_refusal_whose_answer_was_lost_is_not_taken_for_the_job(world, tmp_path):
    world.hasten(late_submit_s=0.05)
    world.lose_next_answer = True  # of the submit that follows the refusal
    async with leading(world, tmp_path):
        add_service(world)
        await world.until(lambda: len(world.jobs) == 2)
        _, queued = world.jobs
        world.set_job(queued, "RUNNING", nodes="n2")
        await world.until(lambda: world.bindings == [("web", "node-2")])
        assert (len(world.jobs), len(world.submissions)) == (2, 1)


async def test_an_allocation_whose_pod_failed_is_cancelled(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await granted_and_bound(world, call)
        world.pod_ends("Failed")
        await world.until(lambda: world.cancelled == [job_id])
        assert world.signals == []


async def test_a_new_leader_knows_an_allocation_when_it_sees_one(world, tmp_path):
    pod = add_service(world, node="node-1", running=True)
    job_id = world.add_job(pod, "RUNNING", nodes="n1", batch_flag=False)
    async with leading(world, tmp_path):
        world.pod_ends("Failed")
        await world.until(lambda: job_id in world.cancelled)
        assert world.signals == []


async def test_a_service_whose_allocation_was_preempted_goes(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await granted_and_bound(world, call)
        world.pod_runs()
        world.set_job(job_id, "PREEMPTED", "COMPLETING")
        await world.until(lambda: world.deleted == ["web"])
        world.pod_is_gone()
        assert await call("epilog", job_id) == (200, {"done": True})

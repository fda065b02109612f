"""A slurmctld that was killed forgets its last jobs, and may give their numbers to others before anybody looks."""

import pytest

from tests.unit.scheduler.test_gate import SHUT
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, leading

NEVER_S = 3600.0
STRANGER = {"comment": "", "admin_comment": "", "user_name": "alice"}


@pytest.fixture
def world():
    world = World()
    world.add_node(1)
    world.add_node(2)
    return world


def asked_about(world, job_id):
    return world.slurm.asked.count(f"job {job_id}")


@pytest.mark.parametrize("state", ["CANCELLED", "COMPLETED", "PENDING", "SUSPENDED"])
async def test_the_end_of_a_stranger_evicts_no_pod_and_the_stranger_is_not_cancelled(world, tmp_path, state):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, state, nodes="" if state == "PENDING" else "n2", **STRANGER)
        # The pod keeps its node, and another job is made to hold it.
        await world.until(lambda: len(world.submissions) == 2)
        assert world.submissions[1]["required_nodes"] == ["n1"]
        assert (world.deleted, world.cancelled, world.signals) == ([], [], [])


async def test_a_stranger_in_the_queue_is_not_cancelled_with_the_pod_that_had_its_number(world, tmp_path):
    async with leading(world, tmp_path, poll_seconds=NEVER_S):
        world.add_pod()
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        world.set_job(job_id, "PENDING", **STRANGER)
        asked = asked_about(world, job_id)
        world.remove("pods", "default", "web")
        await world.until(lambda: asked_about(world, job_id) > asked)
        assert world.cancelled == []


async def test_a_stranger_is_not_told_how_the_pod_ended_that_had_its_number(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "RUNNING", nodes="n2", **STRANGER)
        asked = asked_about(world, job_id)
        world.pod_ends("Succeeded")
        await world.until(lambda: asked_about(world, job_id) > asked)
        assert (world.signals, world.cancelled) == ([], [])


async def test_a_stranger_that_runs_elsewhere_opens_no_gate_for_a_third(world, tmp_path, monkeypatch):
    monkeypatch.setattr("sunkpy.scheduler.gate._LONG_POLL_S", 0.3)
    async with leading(world, tmp_path, poll_seconds=NEVER_S) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "RUNNING", nodes="n1", **STRANGER)
        assert await call("gate", 4711, marked=[job_id]) == SHUT
        await world.until(lambda: len(world.submissions) == 2)
        assert world.submissions[1]["required_nodes"] == ["n1"]

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


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "SUSPENDED"])
async def test_a_pod_in_the_queue_whose_number_a_stranger_has_is_submitted_again(world, tmp_path, monkeypatch, state):
    monkeypatch.setattr("sunkpy.scheduler.due_jobs._FIRST_REASON_S", 0.0)
    monkeypatch.setattr("sunkpy.scheduler.entries._BACKOFF_FIRST_S", 0.01)
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        world.set_job(job_id, state, nodes="" if state == "PENDING" else "n2", **STRANGER)
        await world.until(lambda: len(world.submissions) == 2)
        assert (world.cancelled, world.signals) == ([], [])


async def test_nobody_is_told_of_a_change_of_a_job_that_is_not_there_any_more(world, tmp_path, monkeypatch):
    monkeypatch.setattr("sunkpy.scheduler.due_jobs._FIRST_REASON_S", 0.0)
    monkeypatch.setattr("sunkpy.scheduler.due_jobs._REASON_EACH_S", NEVER_S)
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        await world.until(lambda: asked_about(world, job_id))
        world.set_job(job_id, "PENDING", **STRANGER)
        world.api.change("pods", "default", "web", {"metadata": {"annotations": {"sunkpy.dev/licenses": "matlab"}}})
        await world.until(lambda: len(world.submissions) == 2)
        assert (world.slurm.updates, world.notes("JobChanged")) == ([], [])


async def test_a_job_whose_comment_an_administrator_has_changed_is_cancelled_with_its_pod(world, tmp_path):
    async with leading(world, tmp_path, poll_seconds=NEVER_S):
        world.add_pod()
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        world.set_job(job_id, "PENDING", comment="ask bob before you touch this")
        world.remove("pods", "default", "web")
        await world.until(lambda: world.cancelled)
        assert world.cancelled == [job_id]


async def test_a_job_whose_comment_an_administrator_has_changed_is_told_how_its_pod_ended(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        await world.until(lambda: world.bindings)
        world.set_job(job_id, "RUNNING", nodes="n1", comment="ask bob before you touch this")
        world.pod_ends("Succeeded")
        await world.until(lambda: world.signals)
        assert (world.signals[0], len(world.submissions)) == ((job_id, "USR1"), 1)


async def test_a_changed_comment_takes_no_node_from_a_pod_when_a_third_asks_at_the_gate(world, tmp_path, monkeypatch):
    monkeypatch.setattr("sunkpy.scheduler.gate._LONG_POLL_S", 0.3)
    async with leading(world, tmp_path, poll_seconds=NEVER_S) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "RUNNING", nodes="n1", comment="ask bob before you touch this")
        asked = asked_about(world, job_id)
        assert await call("gate", 4711, marked=[job_id]) == (200, {"done": True})
        assert asked_about(world, job_id) > asked
        world.add_pod("next")
        await world.until(lambda: len(world.submissions) == 2)
        assert "required_nodes" not in world.submissions[1]


async def test_a_job_in_the_queue_whose_comment_an_administrator_has_changed_makes_way_for_another(
    world, tmp_path, monkeypatch
):
    monkeypatch.setattr("sunkpy.scheduler.due_jobs._FIRST_REASON_S", 0.0)
    monkeypatch.setattr("sunkpy.scheduler.due_jobs._REASON_EACH_S", 0.0)
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        world.set_job(job_id, "PENDING", comment="ask bob before you touch this")
        await world.until(lambda: len(world.submissions) == 2)
        assert world.cancelled == [job_id]
        (note,) = set(world.notes("FailedScheduling"))
        assert note == f"somebody has changed the comment of Slurm job {job_id}, by which it is known to be this pod's"

"""A job under the number of ours that is not ours: ids are not given again where slurmctld is that of the chart."""

import asyncio

import pytest

from sunkpy.core.gang.identity import GangId
from sunkpy.scheduler.jobs.search import NOBODY, JobSearch
from tests.doubles.leading import make_leader
from tests.unit.scheduler.test_gate import SHUT
from tests.unit.scheduler.test_people import ANNS
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, away_for_a_poll, connections, leading

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


async def test_a_stranger_that_runs_elsewhere_opens_no_gate_for_a_third(world, tmp_path, monkeypatch):
    monkeypatch.setattr("sunkpy.scheduler.hooks.gate.LONG_POLL_S", 0.3)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "RUNNING", nodes="n1", **STRANGER)
        await away_for_a_poll(world)
        assert await call("gate", 4711, marked=[job_id]) == SHUT
        await world.until(lambda: len(world.submissions) == 2)
        assert world.submissions[1]["required_nodes"] == ["n1"]


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
async def test_a_pod_in_the_queue_whose_number_a_stranger_has_is_submitted_again(world, tmp_path, monkeypatch, state):
    monkeypatch.setattr("sunkpy.scheduler.jobs.due._FIRST_REASON_S", 0.0)
    monkeypatch.setattr("sunkpy.scheduler.record._BACKOFF_FIRST_S", 0.01)
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        world.set_job(job_id, state, nodes="" if state == "PENDING" else "n2", **STRANGER)
        await world.until(lambda: len(world.submissions) == 2)
        assert (world.cancelled, world.signals) == ([], [])


@pytest.mark.parametrize("changes", [{}, {"access": ANNS}], ids=["own", "ann"])
async def test_a_gang_ends_though_a_stranger_has_the_number_of_its_job(world, tmp_path, changes):
    async with leading(world, tmp_path, **changes) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "RUNNING", nodes="n2", **STRANGER)
        world.remove("pods", "default", "web")
        await world.until(lambda: len(world.term._ledger) == 0)
        assert world.slurm.ended_by == []


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
    monkeypatch.setattr("sunkpy.scheduler.hooks.gate.LONG_POLL_S", 0.3)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "RUNNING", nodes="n1", comment="ask bob before you touch this")
        await away_for_a_poll(world)
        asked = asked_about(world, job_id)
        assert await call("gate", 4711, marked=[job_id]) == (200, {"done": True})
        assert asked_about(world, job_id) > asked
        world.add_pod("next")
        await world.until(lambda: len(world.submissions) == 2)
        assert "required_nodes" not in world.submissions[1]


async def test_a_job_in_the_queue_whose_comment_an_administrator_has_changed_makes_way_for_another(
    world, tmp_path, monkeypatch
):
    monkeypatch.setattr("sunkpy.scheduler.jobs.due._FIRST_REASON_S", 0.0)
    monkeypatch.setattr("sunkpy.scheduler.jobs.due._REASON_EACH_S", 0.0)
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        world.set_job(job_id, "PENDING", comment="ask bob before you touch this")
        await world.until(lambda: len(world.submissions) == 2)
        assert world.cancelled == [job_id]
        (note,) = set(world.notes("FailedScheduling"))
        assert note == f"somebody has changed the comment of Slurm job {job_id}, by which it is known to be this pod's"


OTHER_GANG = {"comment": "k8s:default/other:another-uid"}


async def read_once(world):
    """A pod whose job is known to wait, and is not read again by the poll."""
    world.add_pod(cpu="4")
    await world.until(lambda: world.submissions)
    (job_id,) = world.jobs
    await world.until(lambda: asked_about(world, job_id))
    return job_id


@pytest.fixture
def no_reads(monkeypatch):
    monkeypatch.setattr("sunkpy.scheduler.jobs.due._FIRST_REASON_S", 0.0)
    monkeypatch.setattr("sunkpy.scheduler.jobs.due._REASON_EACH_S", NEVER_S)


async def test_a_change_of_a_job_costs_no_question_whose_it_is(world, tmp_path, no_reads):
    async with leading(world, tmp_path):
        job_id = await read_once(world)
        asked = asked_about(world, job_id)
        world.add_node(3, cpu="2")
        await world.until(lambda: world.jobs[job_id].get("excluded_nodes") == "n3")
        assert asked_about(world, job_id) == asked


async def test_strangers_are_read_once_while_slurm_knows_them(world, tmp_path):
    now = [1000.0]
    async with connections(world, tmp_path) as (_, slurm, _):
        search = JobSearch(make_leader(slurm, clock=lambda: now[0]), learned=lambda *_: None)
        reading = asyncio.ensure_future(search.run())

        async def search_again():
            now[0] += 1.0
            world.slurm.asked.clear()
            await search.all(sent_after=now[0] - 0.5)

        stranger = world.slurm.add_job("RUNNING", comment="", user="alice")
        await search_again()
        assert (asked_about(world, stranger), search.whose) == (1, {stranger: NOBODY})
        own = world.slurm.add_job("RUNNING", comment="k8s:default/web:uid", user="k8s")
        await search_again()
        assert search.whose[own] == GangId(namespace="default", name="web", uid="uid")
        assert (asked_about(world, stranger), asked_about(world, own)) == (0, 1)
        reading.cancel()


async def test_a_pod_whose_number_is_proved_to_be_another_gangs_is_covered_anew_at_once(world, tmp_path):
    async with leading(world, tmp_path, poll_seconds=NEVER_S) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "RUNNING", nodes="n2", **OTHER_GANG)
        await call("epilog", job_id, node=2)
        await world.until(lambda: len(world.submissions) == 2)
        assert (world.submissions[1]["required_nodes"], world.deleted) == (["n1"], [])

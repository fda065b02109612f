"""A slurmctld that was killed forgets its last jobs, and may give their numbers to others before anybody looks."""

import itertools

import pytest

from sunkpy.core.gang.identity import GangId
from sunkpy.scheduler.job_search import JobSearch
from sunkpy.scheduler.ledger import Ledger
from tests.unit.scheduler.test_gate import SHUT
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, connections, leading

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
    monkeypatch.setattr("sunkpy.scheduler.due_jobs._FIRST_REASON_S", 0.0)
    monkeypatch.setattr("sunkpy.scheduler.due_jobs._REASON_EACH_S", NEVER_S)


async def test_no_nodes_are_excluded_from_a_job_that_has_the_number_of_one_in_the_queue(world, tmp_path, no_reads):
    async with leading(world, tmp_path):
        job_id = await read_once(world)
        world.set_job(job_id, "PENDING", **OTHER_GANG)
        world.add_node(3, cpu="2")
        await world.until(lambda: len(world.submissions) == 2)
        assert (world.jobs[job_id]["excluded_nodes"], world.submissions[1]["excluded_nodes"]) == ("", ["n3"])


async def test_whose_job_it_is_costs_one_question_for_each_that_is_changed(world, tmp_path, no_reads):
    async with leading(world, tmp_path):
        job_id = await read_once(world)
        asked = asked_about(world, job_id)
        world.add_node(3, cpu="2")
        await world.until(lambda: world.jobs[job_id].get("excluded_nodes") == "n3")
        assert asked_about(world, job_id) == asked + 1


async def test_a_job_whose_answer_was_lost_is_found_under_the_number_of_a_stranger(world, tmp_path, monkeypatch):
    monkeypatch.setattr("sunkpy.scheduler.submit._LATE_SUBMIT_S", 0.01)
    stranger = world.slurm.add_job("RUNNING", comment="", user="alice", nodes="n2")
    async with leading(world, tmp_path):
        await world.until(lambda: asked_about(world, stranger))
        world.slurm._ids = itertools.count(stranger)
        world.lose_next_answer = True
        world.add_pod()
        await world.until(lambda: world.submissions)
        asked = asked_about(world, stranger)
        await world.until(lambda: len(world.submissions) == 2 or asked_about(world, stranger) > asked)
        world.set_job(stranger, "RUNNING", nodes="n1")
        await world.until(lambda: world.bindings)
        assert (len(world.submissions), world.cancelled) == (1, [])


async def test_strangers_that_were_read_long_before_slurm_was_away_are_not_read_again(world, tmp_path):
    now = [1000.0]
    async with connections(world, tmp_path) as (_, slurm, _):
        search = JobSearch(slurm, user="k8s", ledger=Ledger(), clock=lambda: now[0])

        async def search_again():
            now[0] += 1.0
            world.slurm.asked.clear()
            return await search.all(sent_after=now[0] - 0.5)

        old = world.slurm.add_job("RUNNING", comment="", user="alice")
        assert await search_again() == {}
        now[0] += 60.0
        young = world.slurm.add_job("RUNNING", comment="", user="alice")
        assert await search_again() == {}
        world.set_job(young, "RUNNING", comment="k8s:default/web:uid", user_name="k8s")
        assert await search_again() == {}
        search.slurm_was_away(since=now[0])
        assert list(await search_again()) == [GangId(namespace="default", name="web", uid="uid")]
        assert (asked_about(world, old), asked_about(world, young)) == (0, 1)


async def test_a_pod_whose_number_is_proved_to_be_another_gangs_is_covered_anew_at_once(world, tmp_path):
    async with leading(world, tmp_path, poll_seconds=NEVER_S) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, "RUNNING", nodes="n2", **OTHER_GANG)
        await call("epilog", job_id, node=2)
        await world.until(lambda: len(world.submissions) == 2)
        assert (world.submissions[1]["required_nodes"], world.deleted) == (["n1"], [])

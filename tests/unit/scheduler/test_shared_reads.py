"""How many questions Slurm is asked: by hooks of many nodes about one job, on a node of many pods, in a pod's life."""

import asyncio
import itertools

import pytest

from sunkpy.core import names
from sunkpy.runtime.fresh_answer import FreshAnswers
from sunkpy.slurm.errors import NotFound
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, away_for_a_poll, connections, leading

NODES = 12
NOBODYS = 4711
SIXTY = 60
NEVER_S = 3600.0


async def test_whoever_asks_gets_an_answer_to_a_question_that_was_sent_afterwards(tmp_path):
    world, moments = World(), itertools.count()
    job_id = world.slurm.add_job("RUNNING", comment="", nodes="n1")
    world.slurm.unreadable = {job_id, NOBODYS}
    async with connections(world, tmp_path) as (_, slurm, _):
        reads = FreshAnswers(slurm.job, clock=lambda: float(next(moments)))
        asking = [asyncio.ensure_future(reads.get(id)) for id in (job_id, NOBODYS) for _ in range(NODES)]
        await world.until(lambda: world.slurm.reading == 2)
        world.slurm.unreadable = set()
        world.set_job(job_id, "COMPLETING")
        answers = await asyncio.gather(*asking, return_exceptions=True)
        assert [job.state for job, _ in answers[1:NODES]] == [frozenset({"COMPLETING"})] * (NODES - 1)
        assert all(isinstance(answer, NotFound) for answer in answers[NODES:])
        assert sorted(world.slurm.asked) == [f"job {job_id}"] * 2 + [f"job {NOBODYS}"] * 2
        with pytest.raises(NotFound):
            await reads.get(NOBODYS)
        assert len(world.slurm.asked) == 5


async def test_gates_of_all_nodes_of_a_gang_read_its_job_together_and_wait_for_their_own_pod_alone(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("sunkpy.scheduler.hooks.gate.LONG_POLL_S", 0.05)
    world = World()
    for number in range(1, NODES + 1):
        world.add_node(number)
    band = {names.ANNOTATION_GANG: "band", names.ANNOTATION_GANG_SIZE: str(NODES)}
    async with leading(world, tmp_path, poll_seconds=NEVER_S) as server, hook_client(server) as call:

        async def all_gates():
            gates = (call("gate", NOBODYS, node=number, marked=[job_id]) for number in range(1, NODES + 1))
            return [status for status, _ in await asyncio.gather(*gates)]

        for number in range(NODES):
            world.add_pod(f"pod-{number}", annotations=band)
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        world.set_job(job_id, "RUNNING", nodes=f"n[1-{NODES}]")
        await asyncio.gather(*(call("prolog", job_id, node=number) for number in range(1, NODES + 1)))
        await world.until(lambda: len(world.bindings) == NODES)
        world.slurm.most_reading = 0
        assert await all_gates() == [200] * NODES
        assert world.slurm.most_reading == 1
        world.set_job(job_id, "CANCELLED")
        assert await all_gates() == [202] * NODES
        gone, node = world.bindings[0]
        world.pod_is_gone(gone)
        number = int(node.removeprefix("node-"))
        while (await call("gate", NOBODYS, node=number, marked=[job_id]))[0] != 200:
            pass  # the watch tells of it
        assert await all_gates() == [200 if each == number else 202 for each in range(1, NODES + 1)]


def full_node(world):
    """One node for so many pods; nothing is asked but by what happens to them."""
    world.add_node(1, cpu="64")
    world.hasten(nodes_each_s=NEVER_S)


async def start(world, call, name, marks):
    """A pod comes, and its job starts on n1 beside those that have marks there."""
    world.add_pod(name)
    await world.until(lambda: len(world.jobs) > len(marks))
    job_id = max(world.jobs)
    world.set_job(job_id, "RUNNING", nodes="n1")
    assert (await call("gate", job_id, marked=marks, gang=world.jobs[job_id]["comment"]))[0] == 200
    assert (await call("prolog", job_id))[0] == 200
    world.pod_runs(name)
    return job_id


async def test_a_job_that_starts_beside_sixty_pods_costs_one_question_and_a_pod_three_of_its_own(tmp_path):
    world = World()
    full_node(world)
    async with leading(world, tmp_path, poll_seconds=NEVER_S) as server, hook_client(server) as call:
        marks, asked = [], world.slurm.requests
        for number in range(SIXTY):
            marks.append(await start(world, call, f"pod-{number}", marks))
            asked_before = len(asked)
        assert await call("gate", NOBODYS, marked=marks) == (200, {"done": True})
        assert asked[asked_before:] == ["GET jobs/state/"]
        for number, job_id in enumerate(marks):
            world.pod_ends("Succeeded", f"pod-{number}")
            await world.until(lambda job_id=job_id: (job_id, "USR1") in world.signals)
            world.set_job(job_id, "COMPLETED", "COMPLETING")
            assert (await call("epilog", job_id))[0] == 200
        of_each = [request for request in asked if request.startswith(("POST job/", "GET job/", "DELETE job/"))]
        assert len(of_each) == 3 * SIXTY, "its submit, a look at its node, its end"
        assert asked.count("GET jobs/state/") == SIXTY + 1, "of a new leader, and of each gate"


async def test_starts_at_the_same_time_share_their_question(tmp_path):
    world = World()
    full_node(world)
    async with leading(world, tmp_path, poll_seconds=NEVER_S) as server, hook_client(server) as call:
        marks = [await start(world, call, "web", [])]
        asked_before = len(world.slurm.requests)
        answers = await asyncio.gather(*(call("gate", NOBODYS + number, marked=marks) for number in range(SIXTY)))
        assert [status for status, _ in answers] == [200] * SIXTY
        assert len(world.slurm.requests) - asked_before <= SIXTY / 4


async def test_after_polls_that_failed_a_job_of_one_node_is_read_once(tmp_path):
    """Slurm may have queued it again meanwhile, and begun it elsewhere, or forgotten it."""
    world = World()
    full_node(world)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        marks = [await start(world, call, "web", [])]
        await away_for_a_poll(world)
        asked_before = len(world.slurm.requests)
        for _ in range(2):
            assert (await call("gate", NOBODYS, marked=marks))[0] == 200
        assert world.slurm.requests[asked_before:].count(f"GET job/{marks[0]}") == 1

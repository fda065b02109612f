"""What hooks of many nodes ask about one job at the same time costs Slurm two questions."""

import asyncio
import itertools

import pytest

from sunkpy.core import names
from sunkpy.runtime.fresh_answer import FreshAnswers
from sunkpy.slurm.errors import NotFound
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, connections, leading

NODES = 12
NOBODYS = 4711


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
    async with leading(world, tmp_path, poll_seconds=3600.0) as server, hook_client(server) as call:

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

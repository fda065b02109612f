"""A gang of several pods through the whole scheduler: only the family is new, the shell knows nothing of it."""

import asyncio

import pytest

from sunkpy.scheduler import gate, job_poll
from tests.unit.core.gang.trio import WITH_TRIO, labels
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, leading

NODES = (1, 2, 3)


@pytest.fixture
def world():
    world = World()
    for number in NODES:
        world.add_node(number)
    return world


def add_member(world, role, number):
    return world.add_pod(f"{role}-{number}", labels=labels(role))


async def start(world, call):
    """A trio that is bound under its job; gives the job's id."""
    for role, number in (("worker", 1), ("leader", 1), ("worker", 2)):
        assert world.submissions == []
        add_member(world, role, number)
    await world.until(lambda: world.submissions)
    (job_id,) = world.jobs
    world.set_job(job_id, "RUNNING", "CONFIGURING", nodes="n[1-3]")
    answers = await asyncio.gather(*(call("prolog", job_id, node=number) for number in NODES))
    assert answers == [(200, {"done": True})] * 3
    world.set_job(job_id, "RUNNING", nodes="n[1-3]")
    return job_id


async def test_a_gang_becomes_one_job_and_is_bound_whole_in_rank_order(world, tmp_path):
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        await start(world, call)
        (job,) = world.submissions
        assert (job["minimum_nodes"], job["comment"]) == (3, "k8s:default/band:uid-of-band")
        assert dict(world.bindings) == {"leader-1": "node-1", "worker-1": "node-2", "worker-2": "node-3"}


async def test_a_gang_is_handed_over_whole_and_each_node_waits_for_its_own_member(world, tmp_path):
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        job_id = await start(world, call)
        world.set_job(job_id, "PREEMPTED", "COMPLETING")
        epilogs = {number: asyncio.ensure_future(call("epilog", job_id, node=number)) for number in NODES}
        await world.until(lambda: sorted(world.deleted) == ["leader-1", "worker-1", "worker-2"])
        world.api.read.clear()
        world.pod_is_gone("leader-1")
        assert await epilogs[1] == (200, {"done": True})
        assert set(world.api.read) == {"leader-1"}  # of the others it is known that they are elsewhere
        assert not epilogs[2].done()
        world.pod_is_gone("worker-2")
        assert await epilogs[3] == (200, {"done": True})
        assert not epilogs[2].done()
        world.pod_is_gone("worker-1")
        assert await epilogs[2] == (200, {"done": True})


async def test_a_gang_of_which_one_prolog_alone_was_heard_is_bound_when_all_are_through(world, tmp_path, monkeypatch):
    monkeypatch.setattr(job_poll, "_REASON_EACH_S", 0.05)
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        for role, number in (("worker", 1), ("leader", 1), ("worker", 2)):
            add_member(world, role, number)
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        world.set_job(job_id, "RUNNING", nodes="n[1-3]", state_reason="Prolog")
        prolog = asyncio.ensure_future(call("prolog", job_id, node=2))
        done, _ = await asyncio.wait({prolog}, timeout=0.2)
        assert (done, world.bindings) == (set(), [])
        world.set_job(job_id, "RUNNING", nodes="n[1-3]", state_reason="None")
        assert await prolog == (200, {"done": True})
        assert len(world.bindings) == 3


async def test_when_one_member_is_refused_the_others_are_not_bound_under_the_job_that_is_given_back(world, tmp_path):
    async with leading(world, tmp_path, families=WITH_TRIO, poll_seconds=3600.0) as server, hook_client(server) as call:
        for role, number in (("worker", 1), ("leader", 1), ("worker", 2)):
            add_member(world, role, number)
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        full = {"nodeName": "node-1", "containers": [{"resources": {"requests": {"cpu": "4"}}}]}
        world.put("pods", {"metadata": {"name": "daemon", "namespace": "kube-system"}, "spec": full, "status": {}})
        world.set_job(job_id, "RUNNING", "CONFIGURING", nodes="n[1-3]")
        answers = await asyncio.gather(*(call("prolog", job_id, node=number) for number in NODES))
        assert answers == [(200, {"done": True})] * 3
        assert world.cancelled == [job_id]
        assert world.bindings == []


async def test_who_was_displaced_once_is_forgotten_when_the_gang_is_bound_anew(world, tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "COVER_PATIENCE_S", 0.0)
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        lost = await start(world, call)
        world.set_job(lost, "NODE_FAIL", nodes="n[1-3]")
        await world.until(lambda: len(world.submissions) == 2)
        cover = max(world.jobs)
        successor = world.slurm.add_job("RUNNING", comment="", user="alice", nodes="n1")
        asking = asyncio.ensure_future(call("gate", successor))
        await world.until(lambda: len(world.deleted) == 3)
        for old, new in (("leader-1", "leader-2"), ("worker-1", "worker-3"), ("worker-2", "worker-4")):
            add_member(world, *new.split("-"))
            world.pod_is_gone(old)
        assert (await asking)[0] == 200
        world.set_job(cover, "RUNNING", nodes="n[1-3]")
        await world.until(lambda: len(world.bindings) == 6)
        world.set_job(cover, "NODE_FAIL", nodes="n[1-3]")
        await world.until(lambda: len(world.submissions) == 3)
        assert len(world.deleted) == 3


async def test_a_new_leader_finds_a_gang_under_its_job(world, tmp_path):
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        job_id = await start(world, call)
    async with leading(world, tmp_path, families=WITH_TRIO):
        for name in ("leader-1", "worker-1", "worker-2"):
            world.pod_ends("Succeeded", name)
        await world.until(lambda: world.signals == [(job_id, "USR1")])
    assert len(world.submissions) == 1
    assert world.deleted == []

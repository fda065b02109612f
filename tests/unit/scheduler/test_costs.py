"""What a pod costs from its creation to its end: passes, and requests to both sides."""

from collections import Counter

import pytest

from sunkpy.core.gang.phases import State
from sunkpy.scheduler.loop import GangLoop
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, leading

RARELY_S = 3600.0


@pytest.fixture
def world():
    world = World()
    world.add_node(1)
    return world


async def test_a_pod_is_bound_in_two_passes_and_what_shows_it_needs_no_third(world, tmp_path, monkeypatch):
    passes = Counter()
    reconcile = GangLoop.reconcile

    def counted(loop, id):
        passes[id.name] += 1
        return reconcile(loop, id)

    monkeypatch.setattr(GangLoop, "reconcile", counted)
    async with leading(world, tmp_path, poll_seconds=RARELY_S) as server, hook_client(server) as call:
        world.add_pod("web")
        await world.until(lambda: world.submissions)
        (job,) = world.jobs
        world.set_job(job, "RUNNING", nodes="n1")
        assert await call("prolog", job) == (200, {"done": True})
        (record,) = world.term._ledger
        await world.until(lambda: any(pod.spec.node_name for pod in world.term._members.pods_of(record.id)))
        await world.until(lambda: record.state is State.BOUND)
        assert passes == {"web": 2}
        assert record.recognised.pods == tuple(world.term._members.pods_of(record.id))

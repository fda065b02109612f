"""Pods of one namespace do not fill Slurm's table of jobs."""

from __future__ import annotations

from sunkpy.scheduler.jobs.lines import WINDOW_S, NamespaceShares
from tests.unit.scheduler.world import World, leading

WAITS = (
    "the pods of namespace default have made 2 Slurm jobs within 5 minutes, which is the limit of a namespace "
    "(scheduler.namespaceShare of the Slurm cluster): further jobs wait until fewer were made in the last 5 minutes"
)


def test_the_next_one_may_go_when_the_oldest_has_left_the_table():
    now = [0.0]
    shares = NamespaceShares(3, lambda: now[0])
    for at in (0.0, 100.0, 200.0):
        now[0] = at
        assert shares.wait_s("a") == 0.0
        shares.note("a")
    assert (shares.wait_s("a"), shares.wait_s("b")) == (WINDOW_S - 200.0, 0.0)
    now[0] = 299.0
    assert shares.wait_s("a") == 15.0, "thousands do not look each second"
    now[0] = 301.0
    assert shares.wait_s("a") == 0.0
    now[0] = 1000.0
    assert shares.wait_s("a") == 0.0
    assert not shares._made_at


def test_without_a_bound_nothing_is_counted():
    shares = NamespaceShares(0, lambda: 0.0)
    for _ in range(10):
        shares.note("a")
    assert (shares.wait_s("a"), shares._made_at) == (0.0, {})


async def test_pods_that_come_and_go_leave_room_for_those_of_other_namespaces(tmp_path):
    world = World()
    world.add_node(1)
    async with leading(world, tmp_path, jobs_per_namespace=2):
        for number in range(3):
            world.add_pod(f"fast-{number}")
            if number < 2:
                await world.until(lambda number=number: len(world.submissions) == number + 1)
                world.pod_vanishes(f"fast-{number}")
        await world.until(lambda: WAITS in world.notes("FailedScheduling"))
        other = {**world.pod("fast-2"), "metadata": {"name": "other", "namespace": "tenant"}}
        world.put("pods", other)
        await world.until(lambda: len(world.submissions) == 3)
        assert "k8s:tenant/other" in world.submissions[-1]["comment"]


async def test_a_pod_that_runs_without_a_job_gets_one_all_the_same(tmp_path):
    world = World()
    world.add_node(1)
    async with leading(world, tmp_path, jobs_per_namespace=1):
        world.add_pod("first")
        await world.until(lambda: len(world.submissions) == 1)
        world.add_pod("runs", node="node-1", running=True)
        await world.until(lambda: len(world.submissions) == 2)

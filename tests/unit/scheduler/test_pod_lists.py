"""One list of a namespace for all who ask about the same time."""

import asyncio

from sunkpy.scheduler.pod_lists import PodLists
from tests.unit.scheduler.world import World, connections


async def test_many_who_ask_at_once_cost_two_lists_and_nobody_gets_an_old_one(tmp_path):
    world = World()
    world.add_pod("one")
    async with connections(world, tmp_path) as (kube, _, _):
        pods = PodLists(kube)
        first = asyncio.ensure_future(pods.of("default"))
        await asyncio.sleep(0)
        answers = await asyncio.gather(first, *(pods.of("default") for _ in range(20)))
        assert world.api.listed == ["default", "default"]
        assert all([pod.name for pod in answer] == ["one"] for answer in answers)
        world.add_pod("two")
        assert {pod.name for pod in await pods.of("default")} == {"one", "two"}

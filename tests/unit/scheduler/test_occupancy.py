"""What others take of the nodes, as it is read once a minute."""

from __future__ import annotations

import asyncio

from sunkpy.scheduler.nodes.occupancy import Occupancy
from sunkpy.scheduler.pods.neighbours import Neighbours
from tests.unit.scheduler.world import World, connections

OURS = ("slurm",)


def stranger(world, number, node, **labels):
    container = {"name": "c", "resources": {"requests": {"cpu": "100m"}}, "ports": [{"hostPort": 80}]}
    spec = {"nodeName": node, "schedulerName": "other", "containers": [container]}
    meta = {"name": f"pod-{number}", "namespace": "default", "labels": labels}
    world.put("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Running"}})


async def test_pods_of_others_that_have_gone_since_the_last_list_count_no_more(tmp_path):
    world, changes = World(), []
    neighbours = Neighbours(own=lambda: (), scheduler_names=OURS)
    async with connections(world, tmp_path) as (kube, _, _):
        occupancy = Occupancy(
            kube,
            scheduler_names=OURS,
            own=lambda: (),
            neighbours=neighbours,
            on_change=lambda: changes.append(1),
        )
        for number, node in ((1, "node-1"), (2, "node-1"), (3, "node-2")):
            stranger(world, number, node)
        await occupancy.refresh()
        assert (occupancy.taken("node-1")["cpu"], occupancy.taken("node-2")["cpu"]) == (200, 100)
        for name in ("pod-1", "pod-3"):
            world.remove("pods", "default", name)
        await occupancy.refresh()
        around = neighbours.around({})
        assert [pod.name for pod in around.everyone()] == ["pod-2"]
        assert [pod.name for pod in around.keeping_away] == ["pod-2"]
        assert (occupancy.taken("node-1")["cpu"], occupancy.taken("node-2")) == (100, {})
        assert len(changes) == 2


async def test_what_is_known_of_others_is_never_empty_while_it_is_read_anew(tmp_path):
    world = World()
    neighbours = Neighbours(own=lambda: (), scheduler_names=OURS)
    async with connections(world, tmp_path) as (kube, _, _):
        occupancy = Occupancy(kube, scheduler_names=OURS, own=lambda: (), neighbours=neighbours, on_change=lambda: None)
        for number in range(450):
            stranger(world, number, f"node-{number}")
        await occupancy.refresh()
        refresh = asyncio.ensure_future(occupancy.refresh())
        seen = set()
        while not refresh.done():
            seen.add((len(list(neighbours.around({}).everyone())), len(neighbours.around({}).keeping_away)))
            await asyncio.sleep(0)
        assert seen == {(450, 450)}

"""Pods that become gangs of their own, by the index that parts them; the test says what time it is."""

import asyncio

import msgspec

from sunkpy.core.gang.gang import extra_unit
from sunkpy.core.model.objects import Pod
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.pods import index
from sunkpy.scheduler.pods.index import PodIndex
from sunkpy.scheduler.pods.recognition import Recognition
from sunkpy.scheduler.pods.wake import Wake
from tests.unit.scheduler.test_owners import climbing
from tests.unit.scheduler.world import World


async def test_of_hundreds_of_pods_beyond_the_seats_a_turn_parts_256_and_the_gang_comes_again(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "LEFT_OUT_S", 0.05)
    world = World()
    async with climbing(world, tmp_path) as above:
        ledger = Ledger(lambda: above.now)
        recognition = Recognition(owners=above.owners, on_unreadable=lambda *_: None)
        pods = PodIndex(recognition, owners=above.owners, wake=Wake(ledger), clock=lambda: above.now)
        declared = {"sunkpy.dev/gang": "pair", "sunkpy.dev/gang-size": "2"}
        made = [msgspec.convert(world.add_pod(f"{n:03}", annotations=declared), Pod) for n in range(2 + 600)]
        for pod in made:
            pods.update(None, pod)
        id = pods.find_id(made[0])
        left = [len(pods.pods_of(id))]
        async with asyncio.timeout(30):
            while left[-1] > 2:
                key = await ledger.queue.get()
                if key == id:
                    pods.assemble(id, pods.pods_of(id))
                    left.append(len(pods.pods_of(id)))
                    above.now += index.LEFT_OUT_S
                ledger.queue.done(key)
        assert left == [602, 602, 346, 90, 2]
        assert {pods.find_id(pod).unit for pod in made[2:]} == {extra_unit(pod) for pod in made[2:]}

"""Pods that become gangs of their own, by the index that parts them; the test says what time it is."""

import asyncio
import contextlib

import msgspec

from sunkpy.core.gang.access import Namespace
from sunkpy.core.gang.gang import extra_unit
from sunkpy.core.model.objects import Pod
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.pods import index
from sunkpy.scheduler.pods.gangs import Gangs
from sunkpy.scheduler.pods.index import PodsByGang
from sunkpy.scheduler.pods.recognition import Recognition
from sunkpy.scheduler.pods.wake import Wake
from sunkpy.scheduler.settings import SchedulerSettings
from tests.unit.scheduler.test_owners import climbing
from tests.unit.scheduler.world import World

SETTINGS = SchedulerSettings(cluster="test", namespace="slurm", slurm=SlurmSettings(url="", jwt_key_file="key"))
PAIR = {"sunkpy.dev/gang": "pair", "sunkpy.dev/gang-size": "2"}


@contextlib.asynccontextmanager
async def indexed(world, tmp_path):
    """The index, what it wakes, the parts above it, and what recognises gangs; the clock is theirs."""
    async with climbing(world, tmp_path) as above:
        ledger = Ledger(lambda: above.now)
        wake = Wake(ledger)
        recognition = Recognition(owners=above.owners, on_unreadable=lambda *_: None)
        pods = PodsByGang(recognition, owners=above.owners, wake=wake, clock=lambda: above.now)
        gangs = Gangs(
            SETTINGS,
            ledger,
            wake,
            pods,
            recognition,
            namespace_of=lambda name: Namespace(name=name),
            may_claim=lambda gang: False,
            claimed=lambda gang: None,
        )

        yield pods, ledger, above, gangs


async def test_a_pod_beyond_the_seats_takes_that_of_a_member_that_is_being_deleted(tmp_path):
    world = World()
    async with indexed(world, tmp_path) as (pods, ledger, above, gangs):
        for name, node in (("old", "node-1"), ("mate", "node-2"), ("new", "")):
            world.add_pod(name, annotations=PAIR, node=node)
        world.api.change("pods", "default", "old", {"metadata": {"deletionTimestamp": "2026-11-21T00:00:00Z"}})
        leaving, mate, new = (msgspec.convert(world.pod(name), Pod) for name in ("old", "mate", "new"))
        for pod in (leaving, mate, new):
            pods.update(None, pod)
        id = pods.find_id(mate)
        for _ in range(3):
            assert len(pods.pods_of(id)) == 3
            await gangs.reconcile(id)
            above.now += index.LEFT_OUT_S
        pods.update(leaving, None)
        await gangs.reconcile(id)
        gang = ledger.get(id).recognised.gang
        assert {pod.uid for pod in gang.members} == {mate.uid, new.uid}
        assert pods.find_id(new) == id


async def test_of_hundreds_of_pods_beyond_the_seats_a_turn_parts_256_and_the_gang_comes_again(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "LEFT_OUT_S", 0.05)
    world = World()
    async with indexed(world, tmp_path) as (pods, ledger, above, gangs):
        made = [msgspec.convert(world.add_pod(f"{n:03}", annotations=PAIR), Pod) for n in range(2 + 600)]
        for pod in made:
            pods.update(None, pod)
        id = pods.find_id(made[0])
        left = [len(pods.pods_of(id))]
        async with asyncio.timeout(30):
            while left[-1] > 2:
                key = await ledger.changed.get()
                again_s = await gangs.reconcile(key)
                if key == id:
                    if again_s is not None:
                        ledger.changed.add_after(key, again_s)
                    left.append(len(pods.pods_of(id)))
                    above.now += index.LEFT_OUT_S
                ledger.changed.done(key)
        assert left == [602, 602, 346, 90, 2]
        assert {pods.find_id(pod).unit for pod in made[2:]} == {extra_unit(pod) for pod in made[2:]}

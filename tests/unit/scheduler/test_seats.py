"""Members that come late and that the node of their seat refuses."""

import pytest

from sunkpy.core import names
from sunkpy.core.gang.decide import bound
from sunkpy.scheduler.record import GangRecord
from tests.unit.core.gang.trio import WITH_BAND
from tests.unit.scheduler.test_gangs import add_band, start_band, take_node_1
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, leading


@pytest.fixture
def world():
    world = World()
    for number in (1, 2, 3):
        world.add_node(number)
    return world


async def with_worker(world, call):
    """A band whose leader runs on node 2 and whose worker runs on node 1; gives the job's id."""
    job_id = await start_band(world, call, ("n2", 2), ("n1", 1))
    add_band(world, "worker", 1)
    await world.until(lambda: len(world.bindings) == 2)
    world.pod_runs("worker-1")
    return job_id


CORDONED = {
    "metadata": {"annotations": {names.ANNOTATION_DRAIN: "new fan", names.ANNOTATION_DRAIN_BY: "ann"}},
    "spec": {"unschedulable": True},
}
TAINTED = {"spec": {"taints": [{"key": "example.com/hot", "value": "", "effect": "NoSchedule"}]}}
IS_CORDONED = "node node-1 is cordoned by ann (new fan)"
IS_TAINTED = "node node-1 has taint example.com/hot:NoSchedule that the pod does not tolerate"


@pytest.mark.parametrize(("change", "why"), [(CORDONED, IS_CORDONED), (TAINTED, IS_TAINTED)])
async def test_a_member_that_is_drained_does_not_come_back_to_its_node_and_goes_on_elsewhere(
    world, tmp_path, monkeypatch, change, why
):
    monkeypatch.setattr(bound, "SEAT_PATIENCE_S", 0.2)
    world.hasten(again_s=0.05)
    async with leading(world, tmp_path, families=WITH_BAND) as server, hook_client(server) as call:
        job_id = await with_worker(world, call)
        world.api.change("nodes", "", "node-1", change)
        world.pod_is_gone("worker-1")
        again = add_band(world, "worker", 1, "worker-1-again")
        await world.until(lambda: world.notes("FailedScheduling"))
        assert world.notes("FailedScheduling") == [why]
        await world.until(lambda: len(world.submissions) == 2)
        assert world.submissions[1]["comment"] == f"k8s:default/band:uid-of-band/apart-{again['metadata']['uid']}"
        (note,) = await world.until(lambda: world.notes("SeatRefused"))
        assert note == f"{why}: the pod gets a job of its own; Slurm job {job_id} of its gang keeps n1 until it ends"
        own = max(world.jobs)
        world.set_job(own, "RUNNING", "CONFIGURING", nodes="n3")
        assert await call("prolog", own, node=3) == (200, {"done": True})
        await world.until(lambda: world.bindings[-1] == ("worker-1-again", "node-3"))
        assert (world.cancelled, world.deleted, len(world.bindings)) == ([], [], 3)


async def test_a_member_whose_node_takes_it_again_in_time_keeps_its_seat(world, tmp_path):
    world.hasten(again_s=0.05)
    async with leading(world, tmp_path, families=WITH_BAND) as server, hook_client(server) as call:
        await with_worker(world, call)
        world.api.change("nodes", "", "node-1", CORDONED)
        world.pod_is_gone("worker-1")
        add_band(world, "worker", 1, "worker-1-again")
        await world.until(lambda: world.notes("FailedScheduling"))
        world.api.change("nodes", "", "node-1", {"spec": {"unschedulable": None}})
        await world.until(lambda: world.bindings[-1] == ("worker-1-again", "node-1"))
        assert len(world.submissions) == 1


async def test_a_node_that_stays_full_is_asked_less_and_less_often(world, tmp_path, monkeypatch):
    pauses, note_refusal = [], GangRecord.note_refusal

    def noted(record, pod, why, *, now, first_s):
        note_refusal(record, pod, why, now=now, first_s=first_s)
        pauses.append(record.member(pod).refusal.again_at - now)

    monkeypatch.setattr(GangRecord, "note_refusal", noted)
    world.hasten(again_s=0.02)
    async with leading(world, tmp_path, families=WITH_BAND) as server, hook_client(server) as call:
        await start_band(world, call, ("n2", 2), ("n1", 1))
        take_node_1(world)
        add_band(world, "worker", 1)
        await world.until(lambda: len(pauses) >= 5)
        assert pauses[:5] == pytest.approx([0.02, 0.04, 0.08, 0.16, 0.32])


async def test_a_job_whose_members_are_all_gone_is_given_back_when_its_node_refuses_who_comes(world, tmp_path):
    world.hasten(again_s=0.05)
    async with leading(world, tmp_path, families=WITH_BAND) as server, hook_client(server) as call:
        job_id = await start_band(world, call, ("n2", 3))
        world.api.change("nodes", "", "node-2", CORDONED)
        old = world.pod("leader-0")
        world.put("pods", old | {"metadata": old["metadata"] | {"deletionTimestamp": "2026-11-21T00:00:00Z"}})
        add_band(world, "leader", 0, "leader-0-again")
        world.pod_is_gone("leader-0")
        await world.until(lambda: world.cancelled == [job_id])
        why = f"node node-2 is cordoned by ann (new fan); Slurm job {job_id} is cancelled"
        await world.until(lambda: any(why in note for note in world.notes("FailedScheduling")))

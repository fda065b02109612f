"""Jobs that are given back because a node refuses a pod, again and again."""

import re

import pytest

from sunkpy.core import names
from sunkpy.scheduler import record
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, leading


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setitem(record.GangRecord.back_off.__kwdefaults__, "first_s", 0.02)
    world = World()
    for number in (1, 2):
        world.add_node(number)
    world.api.refuse_bindings = True
    return world


async def refused(world, call, number, *, node):
    """The job of this number starts on a node that refuses its pod."""
    await world.until(lambda: len(world.submissions) == number)
    job_id = max(world.jobs)
    world.set_job(job_id, "RUNNING", "CONFIGURING", nodes=f"n{node}")
    await call("prolog", job_id, node=node)
    await world.until(lambda: job_id in world.cancelled)
    world.set_job(job_id, "CANCELLED")


HALTED = (
    "the apiserver refuses the binding to node node-1: no; 3 jobs in a row were given back for this reason: no other "
    "job is submitted for an hour, unless the pods, their owner or the nodes that they may use change"
)


async def with_three_refusals(world, call):
    world.add_pod()
    for number, node in ((1, 1), (2, 2), (3, 1)):
        await refused(world, call, number, node=node)
    await world.until(lambda: HALTED in world.notes("FailedScheduling"))
    (known,) = world.term._ledger
    assert known.retry_at - world.term._leader.clock() > 3500
    return known


async def test_what_is_refused_three_times_alike_takes_no_more_nodes_from_others(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        await with_three_refusals(world, call)
        assert "job 102 is cancelled; 3 jobs in a row were given back for" in world.notes("FailedScheduling")[-2]
        # An annotation is a wish of whoever made the pod.
        world.api.refuse_bindings = False
        world.api.change("pods", "default", "web", {"metadata": {"annotations": {names.PREFIX + "time-limit": "60"}}})
        await world.until(lambda: len(world.submissions) == 4)


def annotate(world, text):
    world.api.change("pods", "default", "web", {"metadata": {"annotations": {"example.com/seen-at": text}}})


async def test_a_pod_that_changes_all_the_time_is_tried_later_each_time(world, tmp_path, monkeypatch):
    monkeypatch.setattr(record, "_BACKOFF_FIRST_S", 300.0)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        known = await with_three_refusals(world, call)
        annotate(world, "first")
        for number, node in ((4, 2), (5, 1), (6, 2)):
            await refused(world, call, number, node=node)
        await world.until(lambda: known.halt is not None)
        for text in ("second", "third"):
            annotate(world, text)
            await world.until(lambda text=text: text in known.recognised.pods[0].annotations.values())
            assert 300 < known.retry_at - world.term._leader.clock() <= 600
        assert re.search("; the pods or their owner change again and again: another job is .* [56].. s$", known.refused)
        await world.until(lambda: world.pod()["status"]["conditions"][0]["message"] == known.refused, within_s=30.0)
        assert len(world.submissions) == 6


async def test_another_node_that_it_may_use_is_tried(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        known = await with_three_refusals(world, call)
        world.add_node(3, cpu="0")  # no node for it
        world.add_node(4)
        await refused(world, call, 4, node=4)
        await world.until(lambda: known.given_back[1] == 4)
        assert known.retry_at - world.term._leader.clock() > 3500


PORT = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]
ROOM = [{"name": "c", "resources": {"requests": {"memory": "6Gi"}}}]


@pytest.mark.parametrize(
    ("containers", "why"),
    [
        (PORT, "node node-1 must be avoided: host port 80 is taken"),
        (ROOM, "node node-1 lacks memory: needs 6Gi, has 2Gi"),
    ],
    ids=["port", "room"],
)
async def test_others_that_are_in_the_way_come_and_go(world, tmp_path, containers, why):
    world.api.refuse_bindings = False
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        world.add_pod(containers=containers)
        for number in (1, 2, 3, 4):
            await world.until(lambda number=number: len(world.submissions) == number)
            stranger = {"metadata": {"name": f"stranger-{number}", "namespace": "default"}}
            on = {"nodeName": "node-1", "containers": containers}
            world.put("pods", stranger | {"spec": on, "status": {"phase": "Running"}})
            await refused(world, call, number, node=1)
            world.remove("pods", "default", f"stranger-{number}")
        told = f"{why}; Slurm job 103 is cancelled; another job is submitted"
        await world.until(lambda: any(note.startswith(told) for note in world.notes("FailedScheduling")))


def test_reasons_that_differ_are_tried_again_as_before():
    known = record.GangRecord(id=None, seen_at=0.0)
    for why in ("node lacks cpu: needs 4, has 3", "node lacks cpu: needs 4, has 2") * 3:
        known.give_back(why, kind=why, now=0.0)
    assert (known.halt, known.retry_at < 300.0) == (None, True)


@pytest.mark.parametrize(("change_helps_at", "looks_at"), [(1000.0, 8.0), (5.0, 5.0)])
def test_another_node_helps_a_gang_whose_changes_help_only_later(change_helps_at, looks_at):
    known = record.GangRecord(id=None, seen_at=0.0, usable=("n1",), change_helps_at=change_helps_at)
    for _ in range(3):
        known.give_back("no", kind="no", now=0.0)
    known.forgive_change(now=1.0)
    assert (known.retry_at, known.next_try_at(1.0)) == (change_helps_at, looks_at)
    assert [known.may_go_on(("n1", "n2"), now=now) for now in (7.0, 8.0)] == [False, True]
    assert not known.may_go_on(("n1",), now=8.0)

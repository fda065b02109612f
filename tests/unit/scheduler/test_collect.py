"""Collecting changes nothing that is remembered, whoever asks and whenever."""

import dataclasses

import pytest

from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.nodes.cluster import Cluster
from sunkpy.scheduler.pods import index
from tests.unit.core.gang.trio import WITH_TRIO
from tests.unit.scheduler.test_gangs import NODES, preempt_trio, start
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.test_solo_gangs import PAIR
from tests.unit.scheduler.world import World, leading

KEPT = (dict, set, int, str, bool)


def copy_of(value):
    """What can be compared later: values are frozen, and what holds them is copied."""
    if isinstance(value, dict):
        return {key: copy_of(each) for key, each in value.items()}
    if dataclasses.is_dataclass(value) and not value.__dataclass_params__.frozen:
        return {field.name: copy_of(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return set(value) if isinstance(value, set) else value


def remembered(world):
    """All records, whose each pod is, what is known of the cluster, and what is to be looked at. Answers that are only
    cached are no part of it.
    """
    ledger, members, cluster = world.term._ledger, world.term._members, world.term._cluster
    records = {record.id: copy_of(record) for record in ledger}
    parts = (ledger.queue, ledger.changed, cluster.neighbours, cluster.volumes, cluster.devices)
    kept = [{name: copy_of(value) for name, value in vars(part).items() if isinstance(value, KEPT)} for part in parts]
    due = (len(ledger.queue), len(ledger.changed), world.term._wake.nodes.is_set(), cluster.reach)
    return records, dict(members._ids), set(members._unidentified), kept, due


@pytest.fixture
def world(monkeypatch):
    """A world that checks that looking at it changes nothing; `looks` counts the looks. A pass that fails is only tried
    again, so the fixture says at the end what a look has changed.
    """
    world = World()
    world.looks, changed = 0, []

    def unchanging(look):
        def call(collector, *args):
            before = remembered(world)
            seen = look(collector, *args)
            after = remembered(world)
            changed.extend((was, now) for was, now in zip(before, after, strict=True) if was != now)
            world.looks += 1
            return seen

        return call

    for name in ("snapshot", "known", "on_node"):
        monkeypatch.setattr(Collector, name, unchanging(getattr(Collector, name)))
    for number in NODES:
        world.add_node(number)
    yield world
    assert changed == []


async def test_from_the_first_pod_to_the_last_epilog_no_look_changes_anything(world, tmp_path):
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        job = await start(world, call)
        await preempt_trio(world, call, job)
        assert world.looks > 10


async def test_pods_become_gangs_of_their_own_and_not_by_a_look(world, tmp_path, monkeypatch):
    monkeypatch.setattr(index, "LEFT_OUT_S", 0.05)
    async with leading(world, tmp_path):
        for name in ("a", "b", "c", "d"):
            world.add_pod(name, annotations=PAIR)
        await world.until(lambda: len(world.submissions) == 3)
        assert world.looks > 3


async def test_a_hook_that_asks_about_a_change_before_the_pass_sees_it_and_keeps_nothing(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job = await bound_pod(world, call)
        term = world.term
        record = term._ledger.by_job(job)
        await world.until(lambda: not record.is_doubted)
        (pod,) = term._members.pods_of(record.id)
        term._members.update(pod, None)
        assert record.is_doubted
        assert term._collector.snapshot(record)[0].gang is None
        assert record.recognised.gang is not None


async def test_a_pass_asks_once_where_the_pods_of_a_template_may_go(world, tmp_path, monkeypatch):
    asked: list[str] = []

    def counting(question):
        def ask(cluster, *args):
            asked.append(question.__name__)
            return question(cluster, *args)

        return ask

    for question in (Cluster.eligibility, Cluster.avoided_nodes):
        monkeypatch.setattr(Cluster, question.__name__, counting(question))
    async with leading(world, tmp_path, poll_seconds=3600.0):
        world.add_pod()
        await world.until(lambda: world.submissions)
        assert sorted(asked) == ["avoided_nodes", "eligibility"]

"""The nodes that NodeSets may come to have: the text that slurmctld's pod makes records of."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from sunkpy.slurm import NodeCache
from tests.unit.syncer.test_syncer import NAME, TOKEN, World
from tests.unit.syncer.test_syncer import world as world
from tests.unit.syncer.test_topology import as_24_11, say

OURS = "demo-potential"
OFFER = "CPUs=2 RealMemory=4000 Gres=gpu:h100:1 Feature=gpu"


def nodeset(world: World, name: str = "gpu", **growth: Any) -> None:
    world.api.put(
        "nodesets",
        {
            "metadata": {"name": name, "namespace": "slurm"},
            "spec": {"cluster": "c1", "template": {}, "growth": growth},
        },
    )


def text(world: World) -> str | None:
    found = world.api.find("configmaps", OURS) or {}
    return found.get("data", {}).get("records")


def counts(world: World) -> list[tuple[str, str]]:
    """How many records there are to be, and of what."""
    lines = [line.split(" ", 2) for line in (text(world) or "").splitlines()]
    return [(count, offer) for count, _, offer in lines]


@pytest.fixture
def told(world: World) -> World:
    """The world with the ConfigMap."""
    world.settings = msgspec.structs.replace(world.settings, potential_config_map=OURS)
    world.api.define("v1", "ConfigMap", "configmaps")
    world.api.put("configmaps", {"metadata": {"name": OURS, "namespace": "slurm"}})
    return world


def register(world: World, name: str = NAME) -> None:
    world.add_pod(name)
    world.slurm.put(name, cpus=2, real_memory=4000, gres="gpu:h100:1(S:0)", features=["gpu"])


async def test_a_record_goes_when_a_node_comes_and_comes_when_one_is_to_go(told: World) -> None:
    nodeset(told, potential=3)
    register(told)
    async with told.syncing():
        await told.until(lambda: counts(told) == [("2", OFFER)])
        register(told, "gpu-000-002")
        await told.until(lambda: counts(told) == [("1", OFFER)])
        told.annotate("gpu-000-002", pending_deletion=TOKEN)
        await told.until(lambda: counts(told) == [("2", OFFER)])


async def test_a_nodeset_without_nodes_has_the_offer_that_the_last_leader_wrote(told: World) -> None:
    line = f"1 gpu_potential_123456 {OFFER}\n"
    told.api.put("configmaps", {"metadata": {"name": OURS, "namespace": "slurm"}, "data": {"records": line}})
    nodeset(told, potential=3)
    async with told.syncing():
        await told.until(lambda: counts(told) == [("3", OFFER)])


async def test_a_nodeset_of_which_nobody_knows_what_a_node_offers_is_told(told: World) -> None:
    nodeset(told, potential=3)
    async with told.syncing():
        await told.until(lambda: "PotentialUnknown" in told.api.reasons())
        nodeset(told, potential=3, shape={"cpus": 4, "memory": "8Gi"})
        await told.until(lambda: [count for count, _ in counts(told)] == ["3"])


async def test_records_go_with_the_wish_and_without_one_nothing_is_written(told: World) -> None:
    nodeset(told)
    register(told)
    async with told.syncing():
        await told.until(lambda: told.nodes.observation is not None)
        await told.some_answers()
        assert text(told) is None
        nodeset(told, potential=2)
        await told.until(lambda: counts(told) == [("1", OFFER)])
        nodeset(told)
        await told.until(lambda: text(told) == "")


async def test_one_nodeset_of_several_gets_records(told: World) -> None:
    nodeset(told)
    nodeset(told, "cpu")
    register(told)
    async with told.syncing():
        nodeset(told, potential=2)
        await told.until(lambda: counts(told) == [("1", OFFER)])
        nodeset(told)
        await told.until(lambda: text(told) == "")
        nodeset(told, potential=3)
        await told.until(lambda: counts(told) == [("2", OFFER)])


async def test_a_record_stands_below_the_root_of_the_tree_or_jobs_of_several_nodes_would_not_count_it(
    told: World,
) -> None:
    say(told, source="auto")
    nodeset(told, potential=2)
    register(told)
    async with told.syncing():
        await told.until(lambda: counts(told) == [("1", f"{OFFER} Topology=tree:all:unknown")])


async def test_slurm_24_11_takes_no_place_of_a_record(told: World) -> None:
    as_24_11(told)
    say(told, source="auto")
    nodeset(told, potential=2)
    register(told)
    async with told.syncing():
        await told.until(lambda: counts(told) == [("1", OFFER)])


async def test_while_slurm_cannot_be_read_the_text_stays(told: World) -> None:
    ahead_s = 0.0
    told.nodes = NodeCache(told.client, poll_s=0.05, clock=lambda: time.monotonic() + ahead_s)
    nodeset(told, potential=2)
    register(told)
    async with told.syncing():
        await told.until(lambda: counts(told) == [("1", OFFER)])
        told.slurm.is_down = True
        await told.until(lambda: told.nodes.problem is not None)
        ahead_s = 60.0
        reads = len(told.slurm.requests)
        told.delete_pod()
        nodeset(told, potential=5)
        await told.until(lambda: len(told.slurm.requests) > reads + 2)
        assert counts(told) == [("1", OFFER)]
        told.slurm.is_down = False
        await told.until(lambda: counts(told) == [("5", OFFER)])

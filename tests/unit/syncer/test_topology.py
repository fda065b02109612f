"""Labels of Nodes become places of Slurm nodes, at once, and files for slurmctld, seldom."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.runtime.settings import BadSettings, SlurmSettings, TopologySettings
from sunkpy.slurm import NodeCache, Slurm
from tests.unit.syncer.test_syncer import NAME, World
from tests.unit.syncer.test_syncer import world as world

LEAF, SPINE = "network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine"
BLOCK = "network.topology.nvidia.com/accelerator"
OURS = "demo-topology"
HAND_WRITTEN = "SwitchName=rack0 Nodes=gpu-000-001,gpu-000-002\n"


def say(world: World, **topology: Any) -> None:
    """These are the values of the chart."""
    pace = {"each_s": 4.0, "settles_s": 0.1, "again_s": 1.0}
    settings = msgspec.convert({"configMap": OURS, "pace": pace} | topology, TopologySettings)
    world.settings = msgspec.structs.replace(world.settings, topology=settings)
    world.api.define("v1", "ConfigMap", "configmaps")
    world.api.put("configmaps", {"metadata": {"name": OURS, "namespace": "slurm"}})


def label(world: World, **labels: str) -> None:
    keys = {"leaf": LEAF, "spine": SPINE, "block": BLOCK}
    world.api.put(
        "nodes", {"metadata": {"name": "node-1", "labels": {keys[key]: text for key, text in labels.items()}}}
    )


def record(world: World, name: str = NAME) -> str:
    return world.slurm.nodes[name].get("topology", "")


def file(world: World, name: str) -> str:
    found = world.api.find("configmaps", OURS) or {}
    return found.get("data", {}).get(name, "")


def unplaced(world: World) -> list[str]:
    return [event["note"] for event in world.api.events() if event["reason"] == "PlaceUnknown"]


def as_24_11(world: World) -> None:
    """slurmrestd serves no version that knows of the topology of a node."""
    transport = world.client._transport
    settings = SlurmSettings(url=transport.url, version="v0.0.42", jwt_key_file=world.key_file)
    world.client = Slurm.connect(settings)
    world.nodes = NodeCache(world.client, poll_s=0.05)


async def test_a_label_becomes_a_place_and_what_vanishes_for_a_moment_changes_nothing(world: World) -> None:
    say(world, source="auto")
    label(world, spine="s1", leaf="l1")
    world.add_pod()
    world.slurm.put(NAME)
    async with world.syncing():
        await world.until(lambda: record(world) == "tree:all:s1/:s1/l1")
        await world.until(lambda: world.annotation(names.ANNOTATION_TOPOLOGY) == "s1/l1")
        label(world, spine="s1", leaf="l2")
        await world.until(lambda: record(world) == "tree:all:s1/:s1/l2")
        label(world, spine="s1")
        says = f"s1/l2 (no label {LEAF})"
        await world.until(lambda: world.annotation(names.ANNOTATION_TOPOLOGY) == says)
        await world.until(lambda: bool(unplaced(world)))
        world.api.remove("nodes", "", "node-1")
        await world.some_answers()
    assert unplaced(world) == [f"Slurm node {NAME} stays at s1/l2 in the topology: no label {LEAF}"]
    assert record(world) == "tree:all:s1/:s1/l2"
    assert world.annotation(names.ANNOTATION_TOPOLOGY) == says
    assert sum("topology_str" in write for write in world.slurm.writes) == 2


async def test_a_node_without_labels_is_below_the_root_for_else_it_would_get_no_large_job(world: World) -> None:
    say(world, source="auto")
    label(world)
    world.add_pod()
    world.slurm.put(NAME)
    async with world.syncing():
        await world.until(lambda: record(world) == "tree:all:unknown")
        await world.until(lambda: world.annotation(names.ANNOTATION_TOPOLOGY) == "unknown (no label of a known source)")


async def test_what_was_ours_goes_when_nobody_wants_it_and_what_was_not_stays(world: World) -> None:
    say(world)
    world.add_pod()
    world.add_pod("gpu-000-002")
    world.slurm.put(NAME, topology="tree:all:l1,block:b1")
    world.slurm.put("gpu-000-002", topology="rack:r1")
    async with world.syncing():
        await world.until(lambda: record(world) == "")
        await world.some_answers()
    assert record(world, "gpu-000-002") == "rack:r1"


async def test_a_block_is_told_once_it_is_in_the_file_and_the_switches_before(world: World) -> None:
    say(world, source="auto", plugins=["tree", "block"], blockSizes=[2])
    label(world, leaf="l1", block="b2")
    world.add_pod()
    world.slurm.put(NAME, topology="tree:all:l1,block:b1")
    world.slurm.lacking = {"b2"}
    async with world.syncing():
        await world.until(lambda: world.annotation(names.ANNOTATION_TOPOLOGY) == "l1 (Slurm's file lacks it)")
        assert not unplaced(world)
        await world.until(lambda: '- block: "b2"' in file(world, "topology.yaml"))
        world.slurm.lacking = set()
        await world.until(lambda: record(world) == "tree:all:l1,block:b2")
    assert '- block: "b1"' not in file(world, "topology.yaml")


async def test_a_block_that_a_record_names_stays_in_the_file_for_slurmctld_would_end(world: World) -> None:
    say(world, source="auto", plugins=["block"], blockSizes=[2])
    label(world, leaf="l1", block="b2")
    world.add_pod()
    world.slurm.put(NAME)
    world.slurm.put("somebody", topology="block:b7")
    async with world.syncing():
        await world.until(lambda: record(world) == "block:b2")
        await world.until(lambda: '"b2"' in file(world, "topology.yaml"))
    assert '"b7"' in file(world, "topology.yaml")


async def test_26_05_gets_the_nodes_in_its_file_once_its_start_would_take_long_without(world: World) -> None:
    pace = {"each_s": 2.0, "settles_s": 0.1, "start_s": 0.0}
    say(world, source="auto", pace=pace)
    label(world, spine="s1", leaf="l1")
    world.add_pod()
    world.slurm.put(NAME)
    async with world.syncing():
        await world.until(lambda: f'{{switch: "s1/l1", nodes: "{NAME}"}}' in file(world, "topology.yaml"))
        label(world, spine="s1", leaf="l2")
        await world.until(lambda: f'{{switch: "s1/l2", nodes: "{NAME}"}}' in file(world, "topology.yaml"))
    notes = world.api.find("configmaps", OURS)["metadata"]["annotations"]
    says = f": slurmctld starts sooner with these nodes in it: {NAME}"
    assert notes[names.ANNOTATION_TOPOLOGY_WHY].endswith(says)


async def test_a_small_cluster_gets_no_file_for_a_node_that_joins_or_moves(world: World) -> None:
    say(world, source="auto")
    label(world, spine="s1", leaf="l1")
    world.add_pod()
    world.slurm.put(NAME)
    async with world.syncing():
        await world.until(lambda: record(world) == "tree:all:s1/:s1/l1")
        await world.until(lambda: "- switch: all\n" in file(world, "topology.yaml"))
        kept = file(world, "topology.yaml")
        label(world, spine="s1", leaf="l2")
        await world.until(lambda: record(world) == "tree:all:s1/:s1/l2")
        await world.some_answers()
    assert file(world, "topology.yaml") == kept


async def test_24_11_gets_a_file_of_the_nodes_that_have_registered(world: World) -> None:
    as_24_11(world)
    say(world, source="auto")
    label(world, spine="s1", leaf="l1")
    world.add_pod()
    world.slurm.put(NAME)
    async with world.syncing():
        await world.until(lambda: world.slurm.nodes[NAME]["comment"] != "")
        await world.until(lambda: f"SwitchName=s1/l1 Nodes={NAME}\n" in file(world, "topology.conf"))
        label(world, spine="s1", leaf="l2")
        await world.until(lambda: f"SwitchName=s1/l2 Nodes={NAME}\n" in file(world, "topology.conf"))
        kept = file(world, "topology.conf")
        label(world, spine="s1")
        says = f"s1/l2 (no label {LEAF})"
        await world.until(lambda: world.annotation(names.ANNOTATION_TOPOLOGY) == says)
        await world.some_answers()
    assert file(world, "topology.conf") == kept
    notes = world.api.find("configmaps", OURS)["metadata"]["annotations"]
    digest = hashlib.sha256(kept.encode()).hexdigest()[:12]
    assert notes[names.ANNOTATION_TOPOLOGY_WHY] == f"{digest}: nodes that came, went or moved: {NAME}"
    assert not [write for write in world.slurm.writes if "topology" in write]


async def test_a_hand_written_file_is_read_again_when_nodes_have_registered(world: World) -> None:
    say(world, fileName="topology.conf", file=HAND_WRITTEN)
    world.add_pod()
    async with world.syncing():
        await world.until(lambda: world.nodes.observation is not None)
        await world.some_answers()
        assert file(world, "topology.conf") == ""
        world.slurm.put(NAME)
        await world.until(lambda: world.slurm.nodes[NAME]["comment"] != "")
        await world.until(lambda: file(world, "topology.conf") != "")
        await world.until(lambda: world.annotation(names.ANNOTATION_TOPOLOGY) == "rack0")
    assert file(world, "topology.conf").startswith(HAND_WRITTEN + "# records: ")
    assert record(world) == ""


async def test_a_hand_written_file_that_only_slurm_understands_is_left_alone(world: World) -> None:
    say(world, fileName="topology.conf", file="SwitchName=rack0 Nodes=gpu-[a-\n")
    world.add_pod()
    world.slurm.put(NAME)
    async with world.syncing():
        await world.until(lambda: world.slurm.nodes[NAME]["comment"] != "")
        await world.some_answers()
    assert file(world, "topology.conf") == ""


async def test_a_config_map_of_topograph_says_where_nodes_stand(world: World) -> None:
    say(world, source="configMap", name="topograph")
    text = "SwitchName=sw1 Switches=sw[2-3]\nSwitchName=sw2 Nodes=gpu-000-001\nSwitchName=sw3 Nodes=gpu-000-003\n"
    world.api.put(
        "configmaps", {"metadata": {"name": "topograph", "namespace": "slurm"}, "data": {"topology.conf": text}}
    )
    world.add_pod()
    world.slurm.put(NAME)
    async with world.syncing():
        await world.until(lambda: record(world) == "tree:all:sw1/:sw1/sw2")


async def test_a_topology_of_kueue_says_which_labels(world: World) -> None:
    say(world, source="kueue", name="default")
    levels = [{"nodeLabel": key} for key in (SPINE, LEAF, "kubernetes.io/hostname")]
    world.api.define("kueue.x-k8s.io/v1beta1", "Topology", "topologies", namespaced=False)
    world.api.put("topologies", {"metadata": {"name": "default"}, "spec": {"levels": levels}})
    label(world, spine="s1", leaf="l1")
    world.add_pod()
    world.slurm.put(NAME)
    async with world.syncing():
        await world.until(lambda: record(world) == "tree:all:s1/:s1/l1")


async def test_slinkys_annotation_is_told_as_it_is(world: World) -> None:
    say(world, source="slinky")
    note = {"topology.slinky.slurm.net/spec": "topo-switch:s2"}
    world.api.put("nodes", {"metadata": {"name": "node-1", "annotations": note}})
    world.add_pod()
    world.slurm.put(NAME)
    async with world.syncing():
        await world.until(lambda: record(world) == "topo-switch:s2")


async def test_a_source_that_nobody_knows_ends_the_syncer_with_its_name(world: World) -> None:
    say(world, source="nobody")
    with pytest.raises(BadSettings, match=r"^topology.source: there is no source 'nobody'$"):
        world.term()

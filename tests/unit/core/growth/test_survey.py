"""NodeSets as growth sees them."""

from __future__ import annotations

import pytest

from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.figures.nodes import PartitionRow
from sunkpy.core.growth.pools import Pool
from sunkpy.core.growth.survey import Members, devices_in_use, find_pools, read_offer
from sunkpy.core.model.states import SlurmNode
from tests.unit.core.growth.build import amounts

MAIN = PartitionRow(name="main", nodes=("n1", "n2", "n3", "cpu_potential_1a2b3c_1"))
OFFER = "CPUs=16 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=2 CoreSpecCount=1 RealMemory=4096"


def slurm_node(name: str, *state: str, **fields) -> SlurmNode:
    fields = {"cpus": 8, "memory_mib": 4096, "features": frozenset({"cpu", "x"}), **fields}
    return SlurmNode(name=name, state=frozenset(state or ("IDLE",)), **fields)


def survey(*nodes: SlurmNode, partitions=(MAIN,), in_use=None, **fields) -> Pool:
    fields = {"nodes": frozenset(node.name for node in nodes), "potential": 9, **fields}
    members = Members(name="cpu", **fields)
    return find_pools([members], {node.name: node for node in nodes}, partitions, in_use or {})[0]


@pytest.mark.parametrize(
    ("node", "left", "is_whole"),
    [
        (slurm_node("n1"), amounts(8, 4), True),
        (slurm_node("n1", "MIXED", alloc_cpus=3, alloc_memory_mib=1024), amounts(5, 3), False),
        (slurm_node("n1", "IDLE", "COMPLETING"), amounts(8, 4), False),
        (slurm_node("n1", effective_cpus=7, effective_memory_mib=2048), amounts(7, 2), True),
    ],
)
def test_what_is_left_on_a_node(node, left, is_whole):
    (room,) = survey(node).rooms
    assert (dict(room.left), room.is_whole) == (left, is_whole)


def test_devices_that_jobs_have_are_not_left():
    jobs = [JobRow(id=n, state=frozenset({"RUNNING"}), devices={"n1": {"gpu": (n,), "gpu:h100": (n,)}}) for n in (1, 2)]
    (room,) = survey(slurm_node("n1", "MIXED", gres="gpu:h100:8(S:0-1)"), in_use=devices_in_use(jobs)).rooms
    assert (room.left["gpu"], room.left["gpu:h100"]) == (6, 6)


@pytest.mark.parametrize(
    "state",
    [("IDLE", "DRAIN"), ("DOWN",), ("IDLE", "NOT_RESPONDING"), ("IDLE", "RESERVED"), ("IDLE", "MAINTENANCE"),
     ("FUTURE",), ("IDLE", "INVALID_REG")],
)  # fmt: skip
def test_a_node_that_takes_no_jobs_is_there_and_of_no_use(state):
    pool = survey(slurm_node("n1", *state))
    assert (pool.rooms, pool.usable, pool.more) == ((), 0, 8)


@pytest.mark.parametrize(
    ("late", "unregistered", "more"),
    [
        (("n3", "n4"), {"n3", "n4"}, 5),
        (("n3", "n4", "n5"), {"n3", "n4", "n5"}, 0),
        (("n1", "n3", "n4"), {"n3", "n4"}, 5),
        (("n2", "n3", "n4"), {"n2", "n3", "n4"}, 0),
    ],
)
def test_it_gets_none_more_while_three_that_came_have_not_registered(late, unregistered, more):
    known = (slurm_node("n1", "DOWN"), slurm_node("n2", "IDLE", "INVALID_REG"))
    pool = survey(*known, nodes=frozenset(f"n{n}" for n in range(1, 6)), late=frozenset(late), potential=10)
    assert (pool.unregistered, pool.more) == (unregistered, more)


def test_a_full_node_is_of_use_later():
    pool = survey(slurm_node("n1", "ALLOCATED", alloc_cpus=8))
    assert (pool.rooms, pool.usable) == ((), 1)


def test_a_node_that_joins_will_be_as_the_others_are():
    pool = survey(slurm_node("n1"), nodes=frozenset({"n1", "n2"}), joining=frozenset({"n2"}))
    assert [(room.node, dict(room.left), room.is_whole) for room in pool.rooms] == [
        ("n1", amounts(8, 4), True),
        ("n2", amounts(8, 4), True),
    ]
    assert (pool.usable, pool.more) == (2, 7)


def test_one_that_joins_counts_once_when_it_is_there():
    pool = survey(slurm_node("n1"), joining=frozenset({"n1"}))
    assert (len(pool.rooms), pool.usable) == (1, 1)


@pytest.mark.parametrize(
    ("state", "comes"), [(("IDLE", "DRAIN"), True), (("MIXED", "DRAIN"), False), (("DOWN",), True)]
)
def test_a_node_whose_pod_is_made_anew_comes_again_once_it_is_empty(state, comes):
    pool = survey(slurm_node("n1", *state), returning=frozenset({"n1"}))
    assert [room.node for room in pool.rooms] == (["n1"] if comes else [])
    assert (pool.usable, pool.more) == (int(comes), 8)


def test_a_node_more_is_as_most_are():
    pool = survey(slurm_node("n1"), slurm_node("n2", cpus=16), slurm_node("n3", cpus=16), offer="CPUs=2 RealMemory=1")
    assert pool.shape == amounts(16, 4)


def test_without_a_node_it_is_as_the_last_one_was():
    pool = survey(offer=f"{OFFER} Gres=gpu:h100:8 Feature=cpu,y", features=frozenset({"cpu"}))
    assert (pool.shape, pool.features) == ({**amounts(14, 4), "gpu": 8, "gpu:h100": 8}, {"cpu", "y"})


def test_nobody_knows_what_one_would_offer():
    assert survey().shape is None
    assert read_offer("CPUs=many") == (None, frozenset())


def test_its_features_are_those_that_all_have():
    first = slurm_node("n1", features=frozenset({"cpu", "x", "zone-a"}))
    pool = survey(first, slurm_node("n2"), features=frozenset({"own"}))
    assert pool.features == {"cpu", "x", "own"}


@pytest.mark.parametrize(
    ("nodes", "serves"),
    [(("n1",), {"main"}), (("cpu_potential_1a2b3c_4",), {"main"}), (("n9", "gpu_potential_1a2b3c_1"), set())],
)
def test_a_partition_is_served_by_nodes_that_are_there_or_could_be(nodes, serves):
    pool = survey(slurm_node("n1"), partitions=[PartitionRow(name="main", nodes=nodes)])
    assert pool.partitions == serves


def test_nodes_of_no_nodeset_have_room_too():
    *_, others = find_pools([Members(name="cpu")], {"n1": slurm_node("n1")}, [MAIN], {})
    assert (others.name, [room.node for room in others.rooms], others.potential) == ("", ["n1"], 0)
    assert others.partitions == {"main"}

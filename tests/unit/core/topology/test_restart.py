"""What slurmctld's start costs by itself, and when the file takes it over."""

import pytest

from sunkpy.core.topology.pace import Pace
from sunkpy.core.topology.places import Place, switch_names, topology_str_of
from sunkpy.core.topology.restart import paths_of, takes_s, to_place

ENOUGH_S = Pace().start_s


def paths(nodes: int, *, of_a_leaf: int = 16, first: int = 0) -> dict[str, tuple[str, ...]]:
    """The path of each node. Nodes are in leaves, and forty leaves are below a spine."""
    leaves = {number: number // of_a_leaf for number in range(first, first + nodes)}
    return {f"n{number}": ("all", *switch_names((f"s{leaf // 40}", f"l{leaf}"))) for number, leaf in leaves.items()}


@pytest.mark.parametrize(("nodes", "least_s", "most_s"), [(1_000, 0.02, 0.2), (4_000, 1.0, 2.0), (10_000, 30, 45)])
def test_a_file_that_names_no_node_is_enough_for_a_small_cluster_only(nodes, least_s, most_s):
    """Measured: 37 s of a core with 10,000 nodes."""
    records = paths(nodes)
    assert least_s < takes_s(records, {}) < most_s
    assert to_place(records, {}, enough_s=ENOUGH_S) == ({} if takes_s(records, {}) <= ENOUGH_S else records)


def test_nodes_that_join_a_large_cluster_are_in_the_next_file_only_when_they_are_many():
    in_file = paths(10_000)
    assert takes_s(in_file, in_file) == 0
    some = in_file | paths(64, first=10_000)
    assert to_place(some, in_file, enough_s=ENOUGH_S) is in_file
    many = in_file | paths(640, first=10_000)
    assert to_place(many, in_file, enough_s=ENOUGH_S) is many


def test_nodes_that_have_gone_cost_nothing():
    in_file = paths(10_000)
    assert to_place(paths(5_000), in_file, enough_s=ENOUGH_S) is in_file


@pytest.mark.parametrize(
    ("record", "path"),
    [
        (
            topology_str_of(Place(switches=switch_names(("s1", "l1")), block="b1"), ["tree", "block"]),
            ("all", "s1/", "s1/l1"),
        ),
        ("tree:all:unknown", ("all", "unknown")),
        ("tree:all", None),
        ("tree:all:s1", ("all", "s1")),
        ("tree:all:s1:l1", None),
        ("tree:all:s1/", None),
        ("tree:top:s1", None),
        ("block:b1", None),
        ("", None),
    ],
)
def test_of_records_only_names_of_ours_are_placed(record, path):
    assert paths_of({"n1": record}) == ({} if path is None else {"n1": path})

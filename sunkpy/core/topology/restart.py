"""Estimates how long a start of slurmctld 26.05 takes for nodes that its topology file does not place, and decides
which nodes the file should place.

slurmctld first reads the file, and then places each node that the file lacks, or whose record names other switches. For
each such node it writes again the names of all nodes below the switches above this node. For each switch that the file
lacks, it computes all distances between switches again (topology_tree.c, switch_record.c). This takes no time for 1,000
nodes, and a minute for 10,000. So in a small cluster the file names no node, and does not change when a node joins. In
a large cluster the file names the nodes that existed when it was written, and it is written again when it lacks too
many nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sunkpy.core.topology.places import ROOT, TREE, units_of

Paths = Mapping[str, tuple[str, ...]]
"""For each node, the switches above it, the root first."""
_NAME_S: Final = 1e-7
_DISTANCE_S: Final = 7.5e-10
"""The processor time, in seconds, that slurmctld needs for one name (`_NAME_S`), and for one way between two switches
that leads over a third (`_DISTANCE_S`). Measured with 26.05.5, 10,000 nodes and 625 leaves: a start took 37 s if all
nodes had to be placed, 4.8 s if the file had the switches but no nodes, 4.3 s if it lacked 400 nodes in 25 leaves, and
0.4 s if it lacked none.
"""


def to_place(records: Paths, in_file: Paths, *, enough_s: float) -> Paths:
    """Return the nodes that the topology file should place, with the switches above each: those in the present file
    (`in_file`), if slurmctld then starts within `enough_s` processor seconds, otherwise all nodes of `records`.
    """
    return in_file if takes_s(records, in_file) <= enough_s else records


def takes_s(records: Paths, in_file: Paths) -> float:
    """Return how many processor seconds a start of slurmctld needs to place the nodes whose path in `records` differs
    from the path in the topology file (`in_file`).
    """
    elsewhere = sum(1 for node, path in records.items() if in_file.get(node) != path)
    known = _switches(in_file)
    each, switches = len(known), len(known | _switches(records))
    names = elsewhere * (len(records) - elsewhere / 2)  # below the root, where they are added one by one
    return _NAME_S * names + _DISTANCE_S * (switches**4 - each**4) / 4


def paths_of(records: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return node → the switches above it by Slurm's record of the node. Only places that sunkpy set are returned,
    because places that others set may not form a tree.
    """
    found = {record: _path(record) for record in {*records.values()}}
    return {node: path for node, record in records.items() if (path := found[record])}


def _path(record: str) -> tuple[str, ...]:
    path = tuple(units_of(record).get(TREE, "").split(":"))
    *inner, leaf = path
    is_ours = path[0] == ROOT and inner and leaf[-1:] not in ("", "/") and all(name[-1:] == "/" for name in inner[1:])
    return path if is_ours else ()


def _switches(paths: Paths) -> set[str]:
    return {ROOT}.union(*set(paths.values()))

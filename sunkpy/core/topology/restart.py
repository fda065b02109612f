"""How long a start of slurmctld 26.05 takes for nodes that its topology file does not place, and which nodes the file
should place for that.

slurmctld reads the file in one go, and then places each node whose record says something else. For each it writes out
the names of all nodes below the switches above; for each switch that the file lacks it works out all distances between
switches anew (topology_tree.c, switch_record.c). That is nothing for 1,000 nodes and a minute for 10,000. So a file
that names no node is enough for a small cluster, and none is written when a node joins one; that of a large one has
the nodes that were there when it was written, and is another one when too many are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sunkpy.core.topology.places import ROOT, TREE, units_of

Paths = Mapping[str, tuple[str, ...]]
"""Node → the switches above it, the root first."""
_NAME_S: Final = 1e-7
_DISTANCE_S: Final = 7.5e-10
"""Seconds for one name, and for one way between two switches over a third. With 10,000 nodes in 625 leaves, a start of
26.05.5 took 37 s of a core for all, 4.8 s where its file had the switches alone, 4.3 s where it lacked 400 nodes in 25
leaves, otherwise 0.4 s.
"""


def to_place(records: Paths, in_file: Paths, *, enough_s: float) -> Paths:
    """The nodes that the file shall place: those that it places, as long as slurmctld starts soon with them."""
    return in_file if takes_s(records, in_file) <= enough_s else records


def takes_s(records: Paths, in_file: Paths) -> float:
    """Processor seconds of slurmctld's start for all that the records say and the file does not."""
    elsewhere = sum(1 for node, path in records.items() if in_file.get(node) != path)
    known = _switches(in_file)
    each, switches = len(known), len(known | _switches(records))
    names = elsewhere * (len(records) - elsewhere / 2)  # below the root, where they are added one by one
    return _NAME_S * names + _DISTANCE_S * (switches**4 - each**4) / 4


def paths_of(records: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Of the places in the nodes' records, those that sunkpy has named. Others may be no tree."""
    found = {record: _path(record) for record in {*records.values()}}
    return {node: path for node, record in records.items() if (path := found[record])}


def _path(record: str) -> tuple[str, ...]:
    path = tuple(units_of(record).get(TREE, "").split(":"))
    *inner, leaf = path
    is_ours = path[0] == ROOT and inner and leaf[-1:] not in ("", "/") and all(name[-1:] == "/" for name in inner[1:])
    return path if is_ours else ()


def _switches(paths: Paths) -> set[str]:
    return {ROOT}.union(*set(paths.values()))

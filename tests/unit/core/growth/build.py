"""Jobs and NodeSets for tests of growth, in cpus and GiB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sunkpy.core.growth.pools import Pool, Room
from sunkpy.core.growth.waiting import WaitingJob


def amounts(cpus: int = 0, gib: int = 0, **gres: int) -> dict[str, int]:
    found = {"cpu": cpus * 1000, "memory": gib * 2**30, **gres}
    return {name: amount for name, amount in found.items() if amount}


NODE = amounts(8, 64)


def make_job(id: int = 1, *, cpus: int = 1, nodes: int = 1, **fields: Any) -> WaitingJob:
    """It asks for cpus on each node."""
    fields = {"per_node": amounts(cpus), "priority": 100, **fields}
    return WaitingJob(id=id, nodes=nodes, partitions=("main",), **fields)


def make_pool(
    name: str = "cpu",
    *,
    free: int = 0,
    busy: int = 0,
    potential: int = 100,
    shape: Mapping[str, int] | None = NODE,
    features: tuple[str, ...] = (),
    **fields: Any,
) -> Pool:
    """A pool with `free` free nodes of that shape, and `busy` full ones."""
    names = [f"{name}-{n}" for n in range(free + busy)]
    known = frozenset({name, *features})
    rooms = tuple(Room(node=node, left=shape or {}, is_whole=True, features=known) for node in names[:free])
    fields = {"partitions": {"main"}, "nodes": frozenset(names), "usable": len(names), "rooms": rooms, **fields}
    return Pool(name=name, features=known, shape=shape, potential=potential, **fields)

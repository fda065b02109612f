"""NodeSets as growth sees them, and the rooms on their nodes that a job in the queue may get.

Nodes of which as much is left are one entry, however many there are: of thousands of nodes most are full or empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Final

import msgspec

from sunkpy.core.growth.constraint import satisfies
from sunkpy.core.growth.waiting import WaitingJob
from sunkpy.core.model.matching import Amounts

NEW: Final = ""
"""The name of a node that is only asked for."""


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of a node that takes jobs, or will: it joins now. `is_whole`: nothing of it is taken."""

    node: str
    left: Mapping[str, int]
    is_whole: bool = False
    features: frozenset[str] = frozenset()


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeSet. `partitions`: those that it serves; `features`: those that a node more would have.

    `shape`: what such a node would offer, None while nobody knows. `nodes`: those that are there or join now, whether
    or not they take jobs; `usable`: how many of them do. `potential`: how many there may be in all, 0 if it does not
    grow.
    """

    name: str
    partitions: Set[str] = frozenset()
    features: frozenset[str] = frozenset()
    shape: Mapping[str, int] | None = None
    nodes: Set[str] = frozenset()
    usable: int = 0
    potential: int = 0
    weight: int = 1
    rooms: tuple[Room, ...] = ()

    @property
    def more(self) -> int:
        """How many nodes it may get."""
        return max(0, self.potential - len(self.nodes))

    def serves(self, job: WaitingJob) -> bool:
        """It is in a partition of the job."""
        return not self.partitions.isdisjoint(job.partitions)

    def would_do(self, job: WaitingJob) -> bool:
        """A node more would have what the job asks for by name.

        A job that excludes all nodes that there are, and there are some, excludes what they have in common: those of
        pods do so with a NodeSet that the pod may not use.

        Raises:
            NotUnderstood: it cannot be told.
        """
        is_excluded = bool(self.nodes) and self.nodes <= set(job.excluded_nodes)
        return not is_excluded and satisfies(job.constraint, self.features)


class NodeKind(msgspec.Struct, frozen=True):
    """What nodes of one entry have in common."""

    pool: str
    features: frozenset[str]
    left: frozenset[tuple[str, int]]
    is_whole: bool


Found = tuple[NodeKind, int]
"""So many nodes of that kind."""


class Rooms:
    """What is left on all nodes, and less with each job that is put there."""

    def __init__(self, pools: Iterable[Pool]) -> None:
        self._nodes: dict[NodeKind, list[str]] = {}
        for pool in pools:
            for room in pool.rooms:
                kind = NodeKind(pool.name, room.features, frozenset(room.left.items()), room.is_whole)
                self._nodes.setdefault(kind, []).append(room.node)

    def copy(self) -> Rooms:
        """As it is now."""
        found = Rooms(())
        found._nodes = {kind: list(nodes) for kind, nodes in self._nodes.items()}
        return found

    def find(self, job: WaitingJob, needs: Mapping[str, int], pools: Set[str], most: int) -> list[Found]:
        """Up to `most` nodes of these pools that have the room, those first of which least is left.

        Raises:
            NotUnderstood: which features it asks for.
        """
        fit = [kind for kind in self._nodes if kind.pool in pools and self._fits(job, needs, kind)]
        found = []
        for kind in sorted(fit, key=_amount_left):
            count = min(most, len(self._usable(job, kind)))
            if count:
                found.append((kind, count))
                most -= count
        return found

    def take(self, job: WaitingJob, needs: Mapping[str, int], found: Iterable[Found]) -> None:
        """Put the job there."""
        for kind, count in found:
            nodes = self._nodes[kind]
            taken = self._usable(job, kind)[-count:]
            if job.excluded_nodes:
                gone = set(taken)
                nodes[:] = [node for node in nodes if node not in gone]
            else:
                del nodes[-count:]
            if not nodes:
                del self._nodes[kind]
            if not job.whole_nodes:
                self._add(kind.pool, kind.features, _less(dict(kind.left), needs), taken)

    def add_new(self, pool: Pool, needs: Mapping[str, int], count: int, *, is_full: bool) -> None:
        """Nodes that are asked for, with a job on each, which takes all of it if `is_full`."""
        if not is_full:
            self._add(pool.name, pool.features, _less(dict(pool.shape or {}), needs), [NEW] * count)

    def _add(self, pool: str, features: frozenset[str], left: Amounts, nodes: list[str]) -> None:
        if left.get("cpu"):
            kind = NodeKind(pool, features, frozenset(left.items()), is_whole=False)
            self._nodes.setdefault(kind, []).extend(nodes)

    def _usable(self, job: WaitingJob, kind: NodeKind) -> list[str]:
        nodes = self._nodes[kind]
        if not job.excluded_nodes:
            return nodes
        excluded = set(job.excluded_nodes)
        return [node for node in nodes if node not in excluded]

    @staticmethod
    def _fits(job: WaitingJob, needs: Mapping[str, int], kind: NodeKind) -> bool:
        if job.whole_nodes and not kind.is_whole:
            return False
        left = dict(kind.left)
        return all(left.get(name, 0) >= amount for name, amount in needs.items()) and satisfies(
            job.constraint, kind.features
        )


def _amount_left(kind: NodeKind) -> tuple[int, ...]:
    left = dict(kind.left)
    return left.get("gpu", 0), left.get("cpu", 0), left.get("memory", 0)


def _less(left: Amounts, needs: Mapping[str, int]) -> Amounts:
    return {name: max(0, amount - needs.get(name, 0)) for name, amount in left.items()}

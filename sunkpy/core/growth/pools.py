"""The NodeSets as growth sees them (the search for nodes that jobs lack), and the free room that their nodes have.

Nodes with equal free room are one entry, however many there are: of thousands of nodes, most are full or empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from itertools import islice
from typing import Final

import msgspec

from sunkpy.core.growth.constraint import satisfies
from sunkpy.core.growth.waiting import WaitingJob
from sunkpy.core.model.matching import Amounts

NEW: Final = ""
"""The name that stands for a node that does not exist yet and is only requested."""
_ENOUGH: Final = 3
"""A NodeSet requests no more nodes if this many nodes did not register: further ones would not register either."""


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """The free room (amounts that jobs can still get) of one node that takes jobs, or will take them when it has
    joined. `is_whole`: no job is on the node.
    """

    node: str
    left: Mapping[str, int]
    is_whole: bool = False
    features: frozenset[str] = frozenset()


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeSet as growth sees it. `partitions`: the Slurm partitions that its nodes are in.

    `features`, `shape`: the features and amounts that a new node of it would have; `shape` is None while unknown.
    `nodes`: its nodes, also those that take no jobs. `usable`: how many nodes take jobs or will take them soon; those
    that will are also counted in `joining`. `unregistered`: nodes that should have registered long ago. `potential`:
    how many nodes it may have in all, 0 if it does not grow. `rooms`: the free room on its nodes.
    """

    name: str
    partitions: Set[str] = frozenset()
    features: frozenset[str] = frozenset()
    shape: Mapping[str, int] | None = None
    nodes: Set[str] = frozenset()
    usable: int = 0
    unregistered: Set[str] = frozenset()
    joining: int = 0
    potential: int = 0
    weight: int = 1
    rooms: tuple[Room, ...] = ()

    @property
    def more(self) -> int:
        """How many more nodes the NodeSet may get now; 0 while too many of its nodes do not register."""
        return 0 if self.is_stopped else max(0, self.potential - len(self.nodes))

    @property
    def is_stopped(self) -> bool:
        """True if the NodeSet requests no more nodes until its unregistered ones have registered or are gone."""
        return len(self.unregistered) >= _ENOUGH

    def serves(self, job: WaitingJob) -> bool:
        """True if the NodeSet has nodes in a partition of the job, or could get some there."""
        return not self.partitions.isdisjoint(job.partitions)

    def would_do(self, job: WaitingJob) -> bool:
        """True if a new node of the NodeSet would have the features that the job asks for, and the job does not exclude
        the NodeSet.

        A job excludes a NodeSet if it excludes all its existing nodes. Jobs of pods do so for each NodeSet that their
        pods may not use.

        Raises:
            NotUnderstood: the job's constraint cannot be read.
        """
        is_excluded = bool(self.nodes) and self.nodes <= job.excluded.nodes
        return not is_excluded and satisfies(job.constraint, self.features)


class Alike:
    """Nodes of one NodeSet with equal free room (`left`). Once `nodes` is empty, no node is added any more."""

    __slots__ = ("features", "is_whole", "left", "nodes", "pool")

    def __init__(self, pool: str, features: frozenset[str], left: Mapping[str, int], *, is_whole: bool) -> None:
        self.pool = pool
        self.features = features
        self.left = left
        self.is_whole = is_whole
        self.nodes: list[str] = []

    def has_room(self, job: WaitingJob, needs: Mapping[str, int]) -> bool:
        """True if each of these nodes has room for what the job takes of one node (`needs`), and has the job's
        features.

        Raises:
            NotUnderstood: the job's constraint cannot be read.
        """
        if job.whole_nodes and not self.is_whole:
            return False
        for name, amount in needs.items():
            if self.left.get(name, 0) < amount:
                return False
        return satisfies(job.constraint, self.features)

    def usable(self, job: WaitingJob) -> list[str]:
        """Return those of these nodes that the job does not exclude."""
        excluded = job.excluded.nodes
        if not excluded:
            return self.nodes
        return [node for node in self.nodes if node not in excluded]


Found = tuple[Alike, int]
"""Nodes with equal free room, and how many of them a job takes."""


class _Search:
    """A stored search for room: the entries (nodes with equal free room) that fit jobs of one kind, among the first
    `seen` entries of `Rooms`.
    """

    __slots__ = ("fit", "seen")

    def __init__(self, fit: Iterable[Alike] = (), seen: int = 0) -> None:
        self.fit = list(fit)
        self.seen = seen


class Rooms:
    """The free room on all nodes. Each placed job makes it smaller.

    An entry is a group of nodes with equal free room. This room never changes: nodes on which a job is placed move to
    an entry with less room. So each entry is tested once for each kind of job, and thousands of waiting jobs need no
    walk over all nodes each.
    """

    def __init__(self, pools: Iterable[Pool]) -> None:
        self._entries: list[Alike] = []
        self._open: dict[object, Alike] = {}
        self._searches: dict[object, _Search] = {}
        rooms = [(pool.name, room) for pool in pools for room in pool.rooms]
        for pool, room in sorted(rooms, key=lambda each: _amount(each[1].left), reverse=True):
            self._add(pool, room.features, room.left, [room.node], is_whole=room.is_whole)

    def copy(self) -> Rooms:
        """Return a copy that does not change when jobs are placed in the original, nor the other way round."""
        found = Rooms(())
        for each in self._entries:
            found._add(each.pool, each.features, each.left, each.nodes, is_whole=each.is_whole)
        return found

    def find(self, job: WaitingJob, needs: Mapping[str, int], pools: frozenset[str], most: int) -> list[Found]:
        """Return up to `most` nodes of these NodeSets (`pools`), grouped by equal free room, that have room for
        `needs`. Entries that were made last come first: mostly nodes on which other jobs were just placed.

        Raises:
            NotUnderstood: the job's constraint cannot be read.
        """
        search = self._searches.setdefault((job.kind, tuple(needs.items()), pools), _Search())
        for entry in islice(self._entries, search.seen, None):
            if entry.nodes and entry.pool in pools and entry.has_room(job, needs):
                search.fit.append(entry)
        search.seen = len(self._entries)
        found = []
        for at in reversed(range(len(search.fit))):
            entry = search.fit[at]
            if not entry.nodes:
                del search.fit[at]
            elif count := min(most, len(entry.usable(job))):
                found.append((entry, count))
                most -= count
            if not most:
                break
        return found

    def take(self, job: WaitingJob, needs: Mapping[str, int], found: Iterable[Found]) -> None:
        """Place the job on these nodes: the free room of each gets smaller by `needs`, or the whole node is taken."""
        for entry, count in found:
            taken = entry.usable(job)[-count:]
            if job.excluded.nodes:
                gone = set(taken)
                entry.nodes = [node for node in entry.nodes if node not in gone]
            else:
                del entry.nodes[-count:]
            if not entry.nodes:
                del self._open[_key(entry)]
            if not job.whole_nodes:
                self._add(entry.pool, entry.features, _less(entry.left, needs), taken, is_whole=False)

    def add_new(self, pool: Pool, needs: Mapping[str, int], count: int, *, is_full: bool) -> None:
        """Add what is left on `count` requested nodes, each with one job on it that takes `needs`. If `is_full`, the
        job takes the whole nodes, and nothing is added.
        """
        if not is_full:
            self._add(pool.name, pool.features, _less(pool.shape or {}, needs), [NEW] * count, is_whole=False)

    def _add(
        self, pool: str, features: frozenset[str], left: Mapping[str, int], nodes: Iterable[str], *, is_whole: bool
    ) -> None:
        entry = Alike(pool, features, left, is_whole=is_whole)
        entry.nodes.extend(nodes)
        if not left.get("cpu") or not entry.nodes:
            return
        known = self._open.setdefault(_key(entry), entry)
        if known is entry:
            self._entries.append(entry)
        else:
            known.nodes.extend(entry.nodes)


def _key(entry: Alike) -> object:
    return entry.pool, entry.features, frozenset(entry.left.items()), entry.is_whole


def _amount(left: Mapping[str, int]) -> tuple[int, ...]:
    return left.get("gpu", 0), left.get("cpu", 0), left.get("memory", 0)


def _less(left: Mapping[str, int], needs: Mapping[str, int]) -> Amounts:
    return {name: max(0, amount - needs.get(name, 0)) for name, amount in left.items()}

"""Which nodes each NodeSet lacks: the jobs that wait, in Slurm's order, are put into rooms one after the other.

A job gets room on nodes that are there or join, then on nodes that jobs before it lack, and only what is left over is
lacking. It gets all of its nodes or none. A NodeSet never lacks more than it may get.

The first job in line that lacks something may need nodes that are busy, too: then what may be had beside them is asked
for, because Slurm keeps no busy node for a job whose other nodes are not there. For a job behind it that would buy
nodes which stand idle until others end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final

import msgspec

from sunkpy.core.growth.constraint import NotUnderstood, satisfies
from sunkpy.core.growth.pools import Found, Pool, Rooms
from sunkpy.core.growth.waiting import Spread, WaitingJob
from sunkpy.core.model.growth import GrowthRequest

TOLD: Final = 3
"""For at most this many jobs the text names the job and says why nothing helps it. The other jobs are counted."""

_SHOWN: Final = 100
"""At most this many characters of a constraint are shown."""

HET_JOBS: Final = 50
"""At most so many heterogeneous jobs are looked at, the first in line. For each of them all rooms are copied, because
it may not fit as a whole.
"""


class Lack(msgspec.Struct, frozen=True, kw_only=True):
    """What one NodeSet lacks for the jobs that wait.

    `never`: why it can never help some jobs, by job, and how many `more` there are of these. `behind`: how many jobs
    wait for nodes of it that it may not get beside those that jobs before them lack. `unseen`: how many are not looked
    at, for there are too many that take long. `unregistered`: the nodes for which it gets none while jobs wait for it.
    `is_held`: a job waits that needs its idle nodes, together with others that are busy, join or are still lacking; or
    that Slurm has looked at and not started, although there seems to be room.
    """

    requests: tuple[GrowthRequest, ...] = ()
    never: Mapping[str, str] = {}
    more: int = 0
    behind: int = 0
    unseen: int = 0
    unregistered: Set[str] = frozenset()
    is_held: bool = False

    @property
    def nodes(self) -> int:
        """How many nodes the NodeSet lacks in all."""
        return sum(each.nodes for each in self.requests)


def find_lacks(jobs: Iterable[WaitingJob], pools: Iterable[Pool], tiers: Mapping[str, int]) -> dict[str, Lack]:
    """What each NodeSet that may grow lacks. `tiers`: partition → PriorityTier, which goes before the
    priority of jobs.
    """
    line = _Line(pools)
    waiting = list(jobs)
    limits = {limit for job in waiting for limit in job.limits}
    groups: dict[int, list[WaitingJob]] = {}
    for job in waiting:
        groups.setdefault(job.het_job or job.id, []).append(job)

    def place(group: Sequence[WaitingJob]) -> tuple[int, int, int]:
        tier = max((tiers.get(name, 0) for name in group[0].partitions), default=0)
        return -tier, -max(job.priority for job in group), group[0].id

    for group in sorted(groups.values(), key=place):
        if all(job.waits_for_nodes and not job.is_bound_by(limits) for job in group):
            line.add(group)
    return line.lacks


class _Try(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it would lie on nodes of one NodeSet's shape: what there is of them, and how many it lacks."""

    pool: Pool
    spread: Spread
    found: Sequence[Found]

    @property
    def lacking(self) -> int:
        return self.spread.nodes - sum(count for _, count in self.found)


class _Line:
    """The queue, from its head on."""

    def __init__(self, pools: Iterable[Pool]) -> None:
        self._pools = sorted(pools, key=lambda pool: (pool.weight, pool.name))
        self._rooms = Rooms(self._pools)
        self._more = {pool.name: pool.more for pool in self._pools}
        self._requests: dict[str, dict[str, int]] = {pool.name: {} for pool in self._pools}
        self._never: dict[str, dict[str, str]] = {pool.name: {} for pool in self._pools}
        self._untold = dict.fromkeys(self._more, 0)
        self._behind = dict.fromkeys(self._more, 0)
        self._unseen = dict.fromkeys(self._more, 0)
        self._het_jobs = 0
        self._joining = {pool.name: pool.joining for pool in self._pools}
        self._held: frozenset[str] = frozenset()
        self._refused: dict[object, Mapping[str, str]] = {}

    @property
    def lacks(self) -> dict[str, Lack]:
        """What has come of it."""
        return {
            (name := pool.name): Lack(
                requests=tuple(GrowthRequest(job=job, nodes=nodes) for job, nodes in self._requests[name].items()),
                never=self._never[name],
                more=self._untold[name],
                behind=self._behind[name],
                unseen=self._unseen[name],
                unregistered=pool.unregistered if pool.is_stopped and self._behind[name] else frozenset(),
                is_held=self._behind[name] > 0 or self._unseen[name] > 0 or name in self._held,
            )
            for pool in self._pools
            if pool.potential
        }

    def add(self, group: Sequence[WaitingJob]) -> None:
        """One more job: all components of a heterogeneous one together, the tasks of an array one by one."""
        is_het = len(group) > 1
        self._het_jobs += is_het
        if (is_het and self._het_jobs > HET_JOBS) or not all(job.excluded.is_kept for job in group):
            for pool in self._pools:
                self._unseen[pool.name] += any(pool.serves(job) for job in group)
            return
        if len(group) == 1:
            for _ in range(group[0].copies):
                if not self._put(group[0]):
                    return
            return
        rooms, more, refused, held = self._rooms.copy(), dict(self._more), dict(self._refused), self._held
        requests = {name: dict(asked) for name, asked in self._requests.items()}
        if not all(self._put(job) for job in group):
            self._rooms, self._more, self._refused, self._requests = rooms, more, refused, requests
            self._held = held

    def _put(self, job: WaitingJob) -> bool:
        """Give it all its nodes, or none."""
        serving = [pool for pool in self._pools if pool.serves(job)]
        if job.kind in self._refused:
            self._refuse(job, self._refused[job.kind])
            return False
        try:
            satisfies(job.constraint, frozenset())
        except NotUnderstood:
            shown = job.constraint if len(job.constraint) <= _SHOWN else f"{job.constraint[:_SHOWN]}…"
            self._refuse(job, {pool.name: f"constraint {shown} is not understood" for pool in serving})
            return False
        tries, never = self._tries(job, serving)
        if any(self._take(job, each, {}) for each in tries if not each.lacking):
            return True
        growing = [each for each in tries if each.pool.potential and each.pool.would_do(job)]
        for each in growing:
            if asked := self._what_to_ask(each, growing, serving):
                return self._take(job, each, asked)
        possible = {each.pool.name: "" for each in growing if each.spread.nodes <= _most(each, growing, serving)}
        for each in growing:
            most = _most(each, growing, serving)
            never[each.pool.name] = f"needs {each.spread.nodes} nodes, and there can be {most}"
        self._refuse(job, possible or never)
        return False

    def _tries(self, job: WaitingJob, serving: Sequence[Pool]) -> tuple[list[_Try], dict[str, str]]:
        """By NodeSet; and why not on others that may grow."""
        tries, never = [], {}
        names = frozenset(pool.name for pool in serving)
        for pool in serving:
            if pool.shape is None:
                continue
            spread = job.spread(pool.shape)
            if isinstance(spread, Spread):
                found = self._rooms.find(job, spread.needs, names, spread.nodes)
                tries.append(_Try(pool=pool, spread=spread, found=found))
            elif pool.would_do(job):
                never[pool.name] = f"a node of it {spread}" if spread.startswith("lacks") else spread
        return tries, never

    def _what_to_ask(self, each: _Try, growing: Sequence[_Try], serving: Sequence[Pool]) -> dict[str, int]:
        """How many nodes more of which NodeSet; nothing, if it cannot get all."""
        alike = [each.pool, *(other.pool for other in growing if other is not each and _fits(each, other.pool))]
        asked, lacking = {}, each.lacking
        for pool in alike[:1] if lacking <= self._more[each.pool.name] else alike:
            if count := min(lacking, self._more[pool.name]):
                asked[pool.name] = count
                lacking -= count
        if not lacking:
            return asked
        is_first = not any(self._requests[pool.name] for pool in alike)
        busy = sum(pool.usable for pool in serving if _fits(each, pool)) - (each.spread.nodes - each.lacking)
        return asked if is_first and lacking <= busy else {}

    def _take(self, job: WaitingJob, each: _Try, asked: Mapping[str, int]) -> bool:
        on = frozenset(entry.pool for entry, _ in each.found)
        if asked or job.was_passed_over or (each.spread.nodes > 1 and any(self._joining[name] for name in on)):
            self._held |= on
        self._rooms.take(job, each.spread.needs, each.found)
        for pool in self._pools:
            if count := asked.get(pool.name, 0):
                self._rooms.add_new(pool, each.spread.needs, count, is_full=job.whole_nodes)
                self._more[pool.name] -= count
                label = job.label or str(job.id)
                self._requests[pool.name][label] = self._requests[pool.name].get(label, 0) + count
        return True

    def _refuse(self, job: WaitingJob, why: Mapping[str, str]) -> None:
        """`why`: by NodeSet; empty where it may be helped once others have ended."""
        self._refused.setdefault(job.kind, why)
        for name, text in why.items():
            if not text:
                self._behind[name] += 1
            elif len(self._never[name]) < TOLD:
                self._never[name][job.label or str(job.id)] = text
            else:
                self._untold[name] += 1


def _fits(each: _Try, pool: Pool) -> bool:
    shape = pool.shape or {}
    return all(shape.get(name, 0) >= amount for name, amount in each.spread.needs.items())


def _most(each: _Try, growing: Sequence[_Try], serving: Sequence[Pool]) -> int:
    """How many nodes the job could ever have."""
    may_grow = {other.pool.name for other in growing}
    alike = [pool for pool in serving if _fits(each, pool)]
    return sum(max(pool.potential, pool.usable) if pool.name in may_grow else pool.usable for pool in alike)

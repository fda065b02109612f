"""Computes how many nodes each NodeSet lacks for the jobs that wait.

Waiting jobs are placed one after the other, in Slurm's order: first on free room of nodes that exist or join, then on
new nodes that earlier jobs lack. The nodes that a job still needs after that are lacking. A job gets all of its nodes
or none. A NodeSet never lacks more nodes than its `potential` allows.

The first job that lacks nodes may also need nodes that are busy. Then its other nodes are requested already, because
Slurm keeps no busy node for a job whose other nodes do not exist. For a later job of this kind nothing is requested:
its new nodes would stay idle until other jobs end.
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
"""The most jobs that the status of a NodeSet names as those that no new node would help; others are only counted."""

_SHOWN: Final = 100
"""The most characters of a job's constraint that a text shows."""

HET_JOBS: Final = 50
"""The most heterogeneous jobs that are placed, in Slurm's order. Each of them costs a copy of all free room, in case it
does not fit as a whole.
"""


class Lack(msgspec.Struct, frozen=True, kw_only=True):
    """What one NodeSet lacks for the jobs that wait. `requests`: how many more nodes it needs, for which jobs.

    `never`: job → why no new node would ever help it; `more`: how many such jobs are not named. `behind`: how many jobs
    wait for nodes beyond those that the NodeSet may get. `unseen`: how many jobs were not placed, because there are too
    many heterogeneous jobs or lists of excluded nodes. `unregistered`: nodes that have not registered in time, which is
    why no more are requested.

    `is_held`: idle nodes must not be released. Either a waiting job needs them together with nodes that are busy,
    joining or lacking. Or Slurm has not started a job although there seems to be room, or some jobs were not placed.
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
        """How many nodes the NodeSet lacks for all jobs together."""
        return sum(each.nodes for each in self.requests)


def find_lacks(jobs: Iterable[WaitingJob], pools: Iterable[Pool], tiers: Mapping[str, int]) -> dict[str, Lack]:
    """Return, by NodeSet, how many more nodes it needs for these waiting jobs; only for NodeSets that may grow.

    `tiers`: partition → its PriorityTier. Jobs are placed in the order of their tier, then of their priority. Jobs that
    new nodes would not help, or that a limit of Slurm will keep waiting anyway, are skipped.
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
    """An attempt to place a job on nodes like those of one NodeSet: the nodes with room for the job (`found`), and how
    many more it lacks (`lacking`).
    """

    pool: Pool
    spread: Spread
    found: Sequence[Found]

    @property
    def lacking(self) -> int:
        return self.spread.nodes - sum(count for _, count in self.found)


class _Line:
    """The queue of waiting jobs as far as they were placed: the room that these jobs left on nodes, and the nodes that
    they lack.
    """

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
        """What each NodeSet that may grow lacks for the jobs added so far, by its name."""
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
        """Place the next job: all components of a heterogeneous job together, the tasks of an array one by one."""
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
        """Place the job on all the nodes that it needs, or on none; True if it was placed."""
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
        """Return an attempt to place the job for each of these NodeSets, and, by NodeSet, why the job fits on none of
        its nodes.
        """
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
                never[pool.name] = f"a node of this NodeSet {spread}" if spread.startswith("lacks") else spread
        return tries, never

    def _what_to_ask(self, each: _Try, growing: Sequence[_Try], serving: Sequence[Pool]) -> dict[str, int]:
        """Return NodeSet → how many new nodes to request for the job. Empty if the job cannot get all nodes that it
        needs, unless it is the first job that lacks nodes, and busy nodes can be the rest of them.

        If the NodeSet of the attempt `each` may not get enough nodes, other NodeSets whose nodes are large enough help.
        """
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
        """Count a job that was not placed. `why`: NodeSet → why its new nodes never help the job; an empty text if they
        may help later.
        """
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
    """Return how many nodes the job could get at most, if all NodeSets in its partitions (`serving`) whose nodes it may
    use grew to their potential.
    """
    may_grow = {other.pool.name for other in growing}
    alike = [pool for pool in serving if _fits(each, pool)]
    return sum(max(pool.potential, pool.usable) if pool.name in may_grow else pool.usable for pool in alike)

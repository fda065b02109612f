"""A cache of all nodes of a Slurm cluster as last read, with the age of that read.

The syncer and the scheduler have one cache each. It reads the nodes each second in the syncer and every 6 s in the
scheduler, or more rarely if a read costs slurmctld much (`sunkpy.slurm.pace`). An idle cluster answers 304 in a few
milliseconds. A stale cache may be shown to people, but no action may follow from it. So code that acts compares the
numbers of two `Observation`s: the number grows with each *successful* read, also if nothing has changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from sunkpy.core.model.states import SlurmNode
from sunkpy.slurm import pace
from sunkpy.slurm.client import Slurm
from sunkpy.slurm.errors import SlurmError
from sunkpy.slurm.nodes import NodesSnapshot, NotModified

Listener = Callable[[frozenset[str]], None]
"""A function that is called after each successful read with the names of nodes that came, went or changed. It must not
block or raise.
"""

_FULL_READ_EACH_S = 60.0
"""Seconds between full reads. Slurm 24.11 still answers 304 after a node was deleted: only a full read shows that."""
_SHORTEST_PAUSE_S = 0.05
_CHEAP_PAUSE_S = 1.0
_RETRY_S = 2.0


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes as of one read. `number` counts successful reads from 1; `at_s`: when the read was *sent* (monotonic).

    `listing`: the number of the read since which the set of node names is the same.
    """

    nodes: dict[str, SlurmNode]
    number: int
    at_s: float
    listing: int = 1


class NodeCache:
    """Keeps all nodes of a Slurm cluster as last read, and reads them again and again. `problem`: why the last read of
    `run` failed; None if it did not.
    """

    def __init__(self, slurm: Slurm, *, poll_s: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._slurm = slurm
        self._poll_s = poll_s
        self._clock = clock
        self._last_update_s = 0
        self._full_at_s = float("-inf")
        self._listeners: list[Listener] = []
        self._flight: asyncio.Task[Observation] | None = None
        self._cost = pace.Cost()
        self._reading_s: float | None = None
        self._not_before_s = float("-inf")
        self._hastened = asyncio.Event()
        import structlog  # here, because commands import this module and write no log

        self._log = structlog.get_logger("slurm-nodes")
        self.observation: Observation | None = None
        self.problem: str | None = None

    def add_listener(self, listener: Listener) -> None:
        """Call `listener` after each successful read from now on, with the names of nodes that came, went or
        changed.
        """
        self._listeners.append(listener)

    @property
    def age_s(self) -> float:
        """Seconds since the newest successful read was sent; infinite before the first."""
        return self._clock() - self.observation.at_s if self.observation else float("inf")

    @property
    def turn_s(self) -> float:
        """The greatest age in seconds that the newest answer reaches before the next one comes, if reads succeed at the
        present pace.
        """
        return pace.turn_s(self._poll_s, self._cost)

    async def run(self) -> None:
        """Read all nodes again and again, until cancelled. After a failed read, `problem` says why, and the next read
        follows within 2 s, or within 30 s if the failed read took long.
        """
        while True:
            started_s = self._clock()
            due_s = started_s + self._poll_s
            self._hastened.clear()
            try:
                await self.refresh()
            except SlurmError as error:
                self._failed(error)
                due_s = started_s + min(self._poll_s, _RETRY_S)
            else:
                if self.problem is not None:
                    self._log.info("Slurm can be read again")
                self.problem = None
            await self._pause(due_s)

    def hasten(self, *, full: bool = False) -> None:
        """Make `run` read again as soon as the pace allows, because the caller knows that something has changed in
        Slurm. `full`: read all nodes then, even if Slurm would answer that nothing has changed.
        """
        if full:
            self._full_at_s = float("-inf")
        self._hastened.set()

    async def refresh(self, *, full: bool = False) -> Observation:
        """Read the nodes without waiting for the pace, and return the result. The read is sent after this call; callers
        that wait at the same time share one read.

        `full`: read all nodes even if Slurm would answer that nothing has changed, as 24.11 does after a deletion.

        Raises:
            SlurmError: the read failed.
        """
        if full:
            self._full_at_s = float("-inf")
        if self._flight is not None:
            # The read that is under way was sent before this call.
            await asyncio.wait({self._flight})
        if self._flight is None or self._flight.done():
            self._flight = asyncio.ensure_future(self._read())
        return await asyncio.shield(self._flight)

    async def _pause(self, due_s: float) -> None:
        """Wait until the next read is due, or until somebody calls `hasten`, but in any case for as long as the pace
        demands.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, due_s - _SHORTEST_PAUSE_S - self._clock())):
                await self._hastened.wait()
        await asyncio.sleep(max(_SHORTEST_PAUSE_S, self._not_before_s - self._clock()))

    async def _read(self) -> Observation:
        sent_s = self._clock()
        if self.observation is None or sent_s - self._full_at_s >= _FULL_READ_EACH_S:
            self._full_at_s, since_s = sent_s, 0
        else:
            since_s = self._last_update_s
        full_at_s = self._full_at_s
        try:
            answer = await self._slurm.nodes(since_s=since_s, known=self.observation.nodes if self.observation else {})
        except SlurmError:
            self._full_at_s = float("-inf")
            self._not_before_s = sent_s + pace.Cost(took_s=self._clock() - sent_s).pause_s
            raise
        # Unless another full read was wanted meanwhile.
        if isinstance(answer, NodesSnapshot) and self._full_at_s == full_at_s:
            self._full_at_s = sent_s
        observation, changed = self._observe(answer, sent_s)
        for listener in self._listeners:
            listener(changed)
        if isinstance(answer, NodesSnapshot):
            await self._ask_cost(sent_s)
        return observation

    def _observe(self, answer: NodesSnapshot | NotModified, sent_s: float) -> tuple[Observation, frozenset[str]]:
        """Store the answer; return it with the names of nodes that came, went or changed."""
        old = self.observation or Observation(nodes={}, number=0, at_s=sent_s)
        number = old.number + 1
        if isinstance(answer, NotModified):
            self.observation = msgspec.structs.replace(old, number=number, at_s=sent_s)
            return self.observation, frozenset()
        self._last_update_s = answer.last_update_s
        self._cost = msgspec.structs.replace(self._cost, took_s=self._clock() - sent_s)
        listing = old.listing if answer.nodes.keys() == old.nodes.keys() else number
        self.observation = Observation(nodes=answer.nodes, number=number, at_s=sent_s, listing=listing)
        return self.observation, _differences(old.nodes, answer.nodes)

    async def _ask_cost(self, sent_s: float) -> None:
        """Note what the last read cost, and so when the next one may be sent. Only after a long read, slurmctld is
        asked for its own part of the time: a short one needs no pause.
        """
        cost = pace.Cost(took_s=self._cost.took_s)
        if cost.pause_s > max(self._poll_s, _CHEAP_PAUSE_S):
            cost = msgspec.structs.replace(cost, slurmctld_s=await self._slurmctld_s())
        self._cost = cost
        self._not_before_s = sent_s + cost.pause_s

    async def _slurmctld_s(self) -> float | None:
        """Return the seconds that slurmctld has spent on reads of nodes since the previous call; None if slurmctld does
        not say, if the previous call got no answer, or if slurmctld has restarted since.
        """
        before_s, self._reading_s = self._reading_s, None
        try:
            self._reading_s = await self._slurm.reading_s()
        except SlurmError as error:
            self._log.info("slurmctld gives no statistics on reads of its nodes", error=str(error))
        if before_s is None or self._reading_s is None or self._reading_s < before_s:
            return None
        return self._reading_s - before_s

    def _failed(self, error: SlurmError) -> None:
        if self.problem is None:
            self._log.warning("Slurm cannot be read: the syncer changes nothing there until it can", error=str(error))
        self.problem = str(error)


def _differences(old: dict[str, SlurmNode], new: dict[str, SlurmNode]) -> frozenset[str]:
    """Return the names of nodes that came, went or changed. Nodes are compared by identity, because a read returns the
    old object for an unchanged node.
    """
    gone = old.keys() - new.keys()
    return frozenset(gone | {name for name, node in new.items() if old.get(name) is not node})

"""The nodes of a Slurm cluster as last read, with how old that is.

One cache per process polls each second; an idle cluster answers 304 in a few milliseconds. A stale cache may be shown,
never acted on: whoever acts takes `Observation`s, whose number grows with every *successful* read, changed or not, and
compares two of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec
import structlog

from sunkpy.core.model.states import SlurmNode
from sunkpy.slurm.client import Slurm
from sunkpy.slurm.errors import SlurmError
from sunkpy.slurm.nodes import NodesSnapshot

Listener = Callable[[frozenset[str]], None]
"""Called after each successful read with the names of nodes that came, went or changed. Must not block or raise."""

_FULL_READ_EACH_S = 60.0
"""A node that somebody deletes does not count as a change (24.11 answers 304): only a full read shows it."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What one read told. `number` counts successful reads from 1, `at_s` is when the read was *sent* (monotonic)."""

    nodes: dict[str, SlurmNode]
    number: int
    at_s: float


class NodeCache:
    """Polls the nodes. `problem` is why the last read failed, or None."""

    def __init__(self, slurm: Slurm, *, poll_s: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._slurm = slurm
        self._poll_s = poll_s
        self._clock = clock
        self._last_update_s = 0
        self._full_at_s = float("-inf")
        self._listeners: list[Listener] = []
        self._flight: asyncio.Task[Observation] | None = None
        self._log = structlog.get_logger("slurm-nodes")
        self.observation: Observation | None = None
        self.problem: str | None = None

    def add_listener(self, listener: Listener) -> None:
        """Hear of each successful read from now on."""
        self._listeners.append(listener)

    @property
    def age_s(self) -> float:
        """Seconds since the newest successful read was sent; infinite before the first."""
        return self._clock() - self.observation.at_s if self.observation else float("inf")

    async def run(self) -> None:
        """Poll until cancelled. A read that fails is told by `problem` and by `age_s`; the next one is due as ever."""
        while True:
            started_s = self._clock()
            try:
                await self.refresh()
            except SlurmError as error:
                self._failed(error)
            else:
                if self.problem is not None:
                    self._log.info("Slurm can be read again")
                self.problem = None
            await asyncio.sleep(max(0.05, self._poll_s - (self._clock() - started_s)))

    async def refresh(self, *, full: bool = False) -> Observation:
        """A read that was sent after this call, shared by all who wait for one.

        `full` asks for all nodes even when Slurm says that nothing has changed: after a deletion it says so (24.11).

        Raises:
            SlurmError: the read failed.
        """
        if full:
            self._full_at_s = float("-inf")
        if self._flight is not None:
            # One that is on its way was sent too early for us.
            await asyncio.wait({self._flight})
        if self._flight is None or self._flight.done():
            self._flight = asyncio.ensure_future(self._read())
        return await asyncio.shield(self._flight)

    async def _read(self) -> Observation:
        sent_s = self._clock()
        is_full_due = self.observation is None or sent_s - self._full_at_s >= _FULL_READ_EACH_S
        answer = await self._slurm.nodes(since_s=0 if is_full_due else self._last_update_s)
        old = self.observation.nodes if self.observation else {}
        number = self.observation.number + 1 if self.observation else 1
        nodes = old
        if isinstance(answer, NodesSnapshot):
            nodes = answer.nodes
            self._last_update_s = answer.last_update_s
            self._full_at_s = sent_s
        self.observation = Observation(nodes=nodes, number=number, at_s=sent_s)
        changed = _differences(old, nodes)
        for listener in self._listeners:
            listener(changed)
        return self.observation

    def _failed(self, error: SlurmError) -> None:
        if self.problem is None:
            self._log.warning("Slurm cannot be read: nothing will be changed until it can", error=str(error))
        self.problem = str(error)


def _differences(old: dict[str, SlurmNode], new: dict[str, SlurmNode]) -> frozenset[str]:
    if old is new:
        return frozenset()
    gone = old.keys() - new.keys()
    return frozenset(gone | {name for name, node in new.items() if old.get(name) != node})

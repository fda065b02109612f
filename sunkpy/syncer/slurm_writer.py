"""Writes to Slurm nodes: each node is read once more right before, and equal changes go as one list.

A rack that is cordoned is dozens of drains with one reason. slurmctld takes its locks, saves its state and looks at all
its reservations for each request, so they are sent together: while one list is being written the next one grows, up to
`MOST_NAMES`; nobody waits for company that may not come. Each node of a list is read by itself and decided on again
(`core.mirror.recheck`), and the list is short, so that what lies between that answer and the write stays a moment: some
50 ms for a full list, the 3 ms of one answer for a single node. When one of them, or what the apiserver says of it, was
long in coming, the others are old by then: each goes alone, read once more.

Slurm carries out a list node by node, and one that it does not know ends the rest. So after a refusal each goes alone.
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Awaitable, Callable, Iterable

import msgspec
import structlog

from sunkpy.core.mirror import (
    DeleteSlurmNode,
    DrainNode,
    RestoreDrain,
    SetAddress,
    SetComment,
    UndrainNode,
    is_in_effect,
    still_holds,
)
from sunkpy.core.mirror.recheck import SlurmAction
from sunkpy.kube.errors import KubeError
from sunkpy.slurm import NodeChange, Slurm
from sunkpy.slurm.errors import Busy, NotFound, Rejected, SlurmError
from sunkpy.slurm.nodes import UNDRAIN, drain

MOST_NAMES = 64
_LISTED_AT_ONCE = 6
_OWN_AT_ONCE = 3
"""Together one less than the client has connections: the poll of all nodes never waits for one."""
_LOOKS_HOLD_S = 1.0
"""How old the first look at a node of a list may be when the list is written."""

Consent = Callable[[], Awaitable[bool]]
"""Asks the apiserver whether it has anything against a write; asked when it is the write's turn, not before."""


class Outcome(enum.Enum):
    """What became of a write."""

    WRITTEN = "written"
    CHANGED = "changed"  # somebody else was faster: the next answer is decided on
    REFUSED = "refused"  # the apiserver has something against it


class _Write(msgspec.Struct, frozen=True):
    action: SlurmAction
    consent: Consent

    @property
    def name(self) -> str:
        return self.action.name


Results = dict[str, Outcome | Exception]
"""By name: what became of it, or why it failed."""


class _List(msgspec.Struct):
    """Writes that make one change; whoever began it writes it, the others wait for `results`."""

    writes: list[_Write]
    results: asyncio.Future[Results]


class SlurmWriter:
    """One list is written at a time. What is each node's own, as its comment, goes beside it and holds up no drain."""

    def __init__(self, slurm: Slurm, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._slurm = slurm
        self._clock = clock
        self._growing: dict[NodeChange, _List] = {}
        self._turn = asyncio.Lock()
        self._listed = asyncio.Semaphore(_LISTED_AT_ONCE)
        self._own = asyncio.Semaphore(_OWN_AT_ONCE)
        self._log = structlog.get_logger("syncer")

    async def write(self, action: SlurmAction, consent: Consent) -> Outcome:
        """Write it, with others of its kind.

        Raises:
            SlurmError, KubeError: not done, or nobody knows.
        """
        write, change = _Write(action, consent), _shared_change(action)
        if change is None:
            async with self._own:
                return await self._write_alone(write)
        joined = self._growing.get(change)
        if joined is None or len(joined.writes) >= MOST_NAMES:
            results = await self._begin(write, change)
        else:
            joined.writes.append(write)
            results = await asyncio.shield(joined.results)
        result = results[write.name]
        if isinstance(result, Exception):
            raise result
        return result

    async def _begin(self, write: _Write, change: NodeChange) -> Results:
        """Begin a list, and write it when the one before has been written."""
        mine = _List(writes=[write], results=asyncio.get_running_loop().create_future())
        self._growing[change] = mine
        try:
            async with self._turn:
                self._close(change, mine)
                results = await self._write_list(mine.writes, change)
            mine.results.set_result(results)
        except Exception as error:
            mine.results.set_exception(error)
            mine.results.exception()  # it is raised here, should nobody have joined
            raise
        finally:
            self._close(change, mine)
            mine.results.cancel()
        return results

    def _close(self, change: NodeChange, done: _List) -> None:
        """Nobody joins it any more; when it was full, another one has been begun since."""
        if self._growing.get(change) is done:
            del self._growing[change]

    async def _write_list(self, writes: list[_Write], change: NodeChange) -> Results:
        if len(writes) == 1:
            return {writes[0].name: await self._write_alone(writes[0])}
        began_s = self._clock()
        results = await self._each(self._recheck, writes)
        agreed = [write for write in writes if results[write.name] is Outcome.WRITTEN]
        if self._clock() - began_s > _LOOKS_HOLD_S:
            return results | await self._each(self._write_alone, agreed)
        try:
            if agreed:
                await self._slurm.update_nodes([write.name for write in agreed], change)
        except (NotFound, Rejected, Busy) as error:
            self._log.info("a list of Slurm nodes was refused, each goes alone", error=str(error))
            results |= await self._each(self._repeat, agreed)
        return results

    async def _each(self, step: Callable[[_Write], Awaitable[Outcome]], writes: Iterable[_Write]) -> Results:
        return dict(await asyncio.gather(*(self._one_of_a_list(step, write) for write in writes)))

    async def _one_of_a_list(
        self, step: Callable[[_Write], Awaitable[Outcome]], write: _Write
    ) -> tuple[str, Outcome | Exception]:
        """An error is that of one name; the others go on."""
        async with self._listed:
            try:
                return write.name, await step(write)
            except (SlurmError, KubeError) as error:
                return write.name, error

    async def _recheck(self, write: _Write) -> Outcome:
        """WRITTEN: nothing speaks against writing it now. The Slurm node is read last."""
        if not await write.consent():
            return Outcome.REFUSED
        if still_holds(write.action, await self._slurm.node(write.name)):
            return Outcome.WRITTEN
        self._log.info("Slurm node has changed meanwhile, decided again", node=write.name)
        return Outcome.CHANGED

    async def _repeat(self, write: _Write) -> Outcome:
        """A refused list may have been written for this node; if not, it is now."""
        if is_in_effect(write.action, await self._slurm.node(write.name)):
            return Outcome.WRITTEN
        return await self._write_alone(write)

    async def _write_alone(self, write: _Write) -> Outcome:
        outcome = await self._recheck(write)
        if outcome is not Outcome.WRITTEN:
            return outcome
        match write.action:
            case DrainNode(name=name, reason=reason) | RestoreDrain(name=name, reason=reason):
                await self._slurm.drain_node(name, reason)
            case UndrainNode(name=name):
                await self._slurm.undrain_node(name)
            case SetComment(name=name, comment=comment):
                await self._slurm.update_node(name, NodeChange(comment=comment))
            case SetAddress(name=name, address=address):
                await self._slurm.update_node(name, NodeChange(address=(address,)))
            case DeleteSlurmNode(name=name):
                await self._slurm.delete_node(name)
        return outcome


def _shared_change(action: SlurmAction) -> NodeChange | None:
    """What several nodes may be told at once; None for what is each node's own."""
    match action:
        case DrainNode(reason=reason) | RestoreDrain(reason=reason):
            return drain(reason)
        case UndrainNode():
            return UNDRAIN
        case _:
            return None

"""Writes to Slurm nodes. Each node is read again right before the write, and equal changes are sent as one list.

When a rack is cordoned, dozens of nodes are drained with one reason. For each request slurmctld takes its locks, saves
its state and checks all its reservations. So equal changes are sent together: while one list is being written, the next
one grows, up to `MOST_NAMES`; a single write goes at once. Each node of a list is read and checked again
(`core.mirror.recheck`). Lists are short, so the write follows soon: after about 50 ms for a full list, 3 ms for a
single node. If these reads take too long, the first are old by then: each node is read again and written alone.

Slurm carries out a list node by node, and stops at an unknown node. So after a refusal each node is written alone.

After a drain is lifted, each node is read again, and a reason that is left is removed (`core.mirror.recheck` says why).
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Awaitable, Callable, Iterable

import msgspec
import structlog

from sunkpy.core.mirror import (
    LOST_DOWN,
    ClearReason,
    DeleteSlurmNode,
    DrainNode,
    LiftDrain,
    RestoreDrain,
    ResumeNode,
    SetAddress,
    SetComment,
    SetTopology,
    SlurmAction,
    UndrainNode,
    is_in_effect,
    is_lost_down,
    leaves_reason,
    lifted_too,
    still_holds,
)
from sunkpy.kube.errors import KubeError
from sunkpy.slurm import NodeChange, Slurm
from sunkpy.slurm.errors import Busy, NotFound, Rejected, SlurmError
from sunkpy.slurm.nodes import NO_REASON, RESUME, UNDRAIN, drain

MOST_NAMES = 64
_LISTED_AT_ONCE = 6
_OWN_AT_ONCE = 3
"""This limit and `_LISTED_AT_ONCE` together leave most of the client's connections free, for the poll of all nodes and
for others.
"""
_LOOKS_HOLD_S = 1.0
"""The greatest age, in seconds, of the first read of a list when the list is written."""

Consent = Callable[[], Awaitable[bool]]
"""A function that asks the apiserver, right before a write, whether the reason of the write still holds."""


class WriteOutcome(enum.Enum):
    """The outcome of a write to a Slurm node."""

    WRITTEN = "written"
    CHANGED = "changed"  # the node has changed meanwhile: decide on the next answer
    REFUSED = "refused"  # the apiserver did not confirm the reason of the write


class _Write(msgspec.Struct):
    """`reason`: the node's reason when it was read right before the write. `leaves_reason`: whether a lift left one."""

    action: SlurmAction
    consent: Consent
    reason: str = ""
    leaves_reason: bool = False

    @property
    def name(self) -> str:
        return self.action.name

    @property
    def lifts(self) -> bool:
        return isinstance(self.action, UndrainNode | LiftDrain | ResumeNode)


Results = dict[str, WriteOutcome | Exception]
"""Slurm node → the outcome of its write, or the error."""


class _List(msgspec.Struct):
    """Writes of the same change to several nodes. The call that began the list sends it; the other calls wait for
    `results`.
    """

    writes: list[_Write]
    results: asyncio.Future[Results]


class SlurmWriter:
    """Writes changes to Slurm nodes. Equal changes are sent as one list, and one list at a time. Changes that nodes
    cannot share, such as comments, are sent at the same time, and delay no drain.
    """

    def __init__(self, slurm: Slurm, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._slurm = slurm
        self._clock = clock
        self._growing: dict[NodeChange, _List] = {}
        self._turn = asyncio.Lock()
        self._listed = asyncio.Semaphore(_LISTED_AT_ONCE)
        self._own = asyncio.Semaphore(_OWN_AT_ONCE)
        self._log = structlog.get_logger("syncer")

    async def write(self, action: SlurmAction, consent: Consent) -> WriteOutcome:
        """Carry out the action, in one request with equal changes of other nodes. `consent` is called right before; if
        it returns False, nothing is written.

        Raises:
            SlurmError, KubeError: the write failed, or its outcome is unknown.
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
        """Begin a list with this write, which others may join. Send it when the list before has been written; return
        the outcomes.
        """
        mine = _List(writes=[write], results=asyncio.get_running_loop().create_future())
        self._growing[change] = mine
        try:
            async with self._turn:
                self._close(change, mine)
                results = await self._write_list(mine.writes, change)
            mine.results.set_result(results)
        except Exception as error:
            mine.results.set_exception(error)
            mine.results.exception()  # mark it as retrieved: it is raised here, and perhaps no other write has joined
            raise
        finally:
            self._close(change, mine)
            mine.results.cancel()
        return results

    def _close(self, change: NodeChange, done: _List) -> None:
        """Let no more writes join this list. If it was full, the next list may have been begun already; that one is
        left alone.
        """
        if self._growing.get(change) is done:
            del self._growing[change]

    async def _write_list(self, writes: list[_Write], change: NodeChange) -> Results:
        if len(writes) == 1:
            return {writes[0].name: await self._write_alone(writes[0])}
        began_s = self._clock()
        results = await self._each(self._recheck, writes)
        agreed = [write for write in writes if results[write.name] is WriteOutcome.WRITTEN]
        if self._clock() - began_s > _LOOKS_HOLD_S:
            return results | await self._each(self._write_alone, agreed)
        if change == NO_REASON:
            return results | await self._remove_reasons(agreed)
        try:
            if agreed:
                await self._slurm.update_nodes([write.name for write in agreed], change)
        except (NotFound, Rejected, Busy) as error:
            self._log.info("Slurm refused a list of nodes, each is written alone", error=str(error))
            return results | await self._each(self._repeat, agreed)
        return results | await self._finish(agreed) if change in (UNDRAIN, RESUME) else results

    async def _finish(self, lifted: list[_Write]) -> Results:
        """After drains are lifted: set again what was lifted too, and remove the reasons that are left. If these looks
        take too long, each node is read again, and its reason is removed alone.
        """
        began_s = self._clock()
        results = await self._each(self._look_after, lifted)
        left = [write for write in lifted if write.leaves_reason]
        if self._clock() - began_s > _LOOKS_HOLD_S:
            return results | await self._each(self._end, left)
        return results | await self._remove_reasons(left)

    async def _remove_reasons(self, writes: list[_Write]) -> Results:
        errors: Results = {}
        try:
            if writes:
                await self._slurm.update_nodes([write.name for write in writes], NO_REASON)
        except SlurmError as error:  # some of the reasons may be gone
            errors = dict.fromkeys((write.name for write in writes), error)
        return await self._each(self._look_last, writes) | errors

    async def _look_after(self, write: _Write) -> WriteOutcome:
        """Return WRITTEN, or CHANGED if somebody else holds the node by now. If somebody else's drain was lifted, too,
        set it again.
        """
        node = await self._slurm.node(write.name)
        if reason := lifted_too(node, write.reason):
            self._log.warning("Slurm node drained by others while lifted, drained again", node=node.name, reason=reason)
            await self._slurm.drain_node(node.name, reason)
            return WriteOutcome.CHANGED
        write.leaves_reason = leaves_reason(node)
        return WriteOutcome.CHANGED if node.is_closed else WriteOutcome.WRITTEN

    async def _look_last(self, write: _Write) -> WriteOutcome:
        """Drain the node if somebody set it DOWN while its reason was removed."""
        node = await self._slurm.node(write.name)
        if not is_lost_down(node):
            return WriteOutcome.WRITTEN
        self._log.warning("Slurm node set DOWN by others while its reason was removed, drained", node=node.name)
        await self._slurm.drain_node(node.name, LOST_DOWN)
        return WriteOutcome.CHANGED

    async def _each(self, step: Callable[[_Write], Awaitable[WriteOutcome]], writes: Iterable[_Write]) -> Results:
        return dict(await asyncio.gather(*(self._one_of_a_list(step, write) for write in writes)))

    async def _one_of_a_list(
        self, step: Callable[[_Write], Awaitable[WriteOutcome]], write: _Write
    ) -> tuple[str, WriteOutcome | Exception]:
        """Do a step for one write of a list; return the node's name and the outcome. An error is returned, too, so that
        the other writes go on.
        """
        async with self._listed:
            try:
                return write.name, await step(write)
            except (SlurmError, KubeError) as error:
                return write.name, error

    async def _recheck(self, write: _Write) -> WriteOutcome:
        """Check right before a write whether it may be done. Return WRITTEN if it may, else why not: REFUSED or
        CHANGED. The Slurm node is read last.
        """
        if not await write.consent():
            return WriteOutcome.REFUSED
        node = await self._slurm.node(write.name)
        if still_holds(write.action, node):
            write.reason = node.reason
            return WriteOutcome.WRITTEN
        self._log.info("Slurm node changed meanwhile, decided again", node=write.name)
        return WriteOutcome.CHANGED

    async def _repeat(self, write: _Write) -> WriteOutcome:
        """Write one node of a refused list, unless Slurm has already changed this node."""
        if is_in_effect(write.action, await self._slurm.node(write.name)):
            return await self._end(write)
        return await self._write_alone(write)

    async def _end(self, write: _Write) -> WriteOutcome:
        """Do for one node what `_finish` does for a list."""
        outcome = await self._look_after(write) if write.lifts else WriteOutcome.WRITTEN
        return await self._remove_reason(write) if write.leaves_reason else outcome

    async def _remove_reason(self, write: _Write) -> WriteOutcome:
        try:
            await self._slurm.update_node(write.name, NO_REASON)
        except SlurmError:  # the reason may be gone
            await self._look_last(write)
            raise
        return await self._look_last(write)

    async def _write_alone(self, write: _Write) -> WriteOutcome:
        outcome = await self._recheck(write)
        if outcome is not WriteOutcome.WRITTEN:
            return outcome
        match write.action:
            case DrainNode(name=name, reason=reason) | RestoreDrain(name=name, reason=reason):
                await self._slurm.drain_node(name, reason)
            case UndrainNode(name=name) | LiftDrain(name=name):
                await self._slurm.update_node(name, UNDRAIN)
            case ClearReason():
                return await self._remove_reason(write)
            case ResumeNode(name=name):
                await self._slurm.update_node(name, RESUME)
            case SetComment(name=name, comment=comment):
                await self._slurm.update_node(name, NodeChange(comment=comment))
            case SetAddress(name=name, address=address):
                await self._slurm.update_node(name, NodeChange(address=(address,)))
            case SetTopology(name=name, topology=topology):
                await self._slurm.update_node(name, NodeChange(topology_str=topology))
            case DeleteSlurmNode(name=name):
                await self._slurm.delete_node(name)
        return await self._end(write)


def _shared_change(action: SlurmAction) -> NodeChange | None:
    """Return the change that the action makes, if one request may make it on several nodes; None if it is for one node
    only.
    """
    match action:
        case DrainNode(reason=reason) | RestoreDrain(reason=reason):
            return drain(reason)
        case UndrainNode() | LiftDrain():
            return UNDRAIN
        case ResumeNode():
            return RESUME
        case ClearReason():
            return NO_REASON
        case _:
            return None

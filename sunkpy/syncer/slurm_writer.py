"""Writes to Slurm nodes: each node is read once more right before, and equal changes go as one list.

A rack that is cordoned is dozens of drains with one reason. slurmctld takes its locks, saves its state and looks at all
its reservations for each request, so they are sent together: while one list is being written the next one grows, up to
`MOST_NAMES`; nobody waits for company that may not come. Each node of a list is read by itself and decided on again
(`core.mirror.recheck`), and the list is short, so that what lies between that answer and the write stays a moment: some
50 ms for a full list, the 3 ms of one answer for a single node.

Slurm carries out a list node by node, and one that it does not know ends the rest. So after a refusal each goes alone.
"""

from __future__ import annotations

import asyncio

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
from sunkpy.core.model.states import SlurmNode
from sunkpy.slurm import NodeChange, Slurm
from sunkpy.slurm.errors import Busy, NotFound, Rejected, SlurmError
from sunkpy.slurm.nodes import UNDRAIN, drain

MOST_NAMES = 64
_LISTED_AT_ONCE = 6
_OWN_AT_ONCE = 3
"""Together one less than the client has connections: the poll of all nodes never waits for one."""

Results = dict[str, bool | SlurmError]
"""By name: whether it was written, or why not."""


class _List(msgspec.Struct):
    """Actions that make one change; whoever began it writes it, the others wait for `results`."""

    actions: list[SlurmAction]
    results: asyncio.Future[Results]


class SlurmWriter:
    """One list is written at a time. What is each node's own, as its comment, goes beside it and holds up no drain."""

    def __init__(self, slurm: Slurm) -> None:
        self._slurm = slurm
        self._growing: dict[NodeChange, _List] = {}
        self._turn = asyncio.Lock()
        self._listed = asyncio.Semaphore(_LISTED_AT_ONCE)
        self._own = asyncio.Semaphore(_OWN_AT_ONCE)
        self._log = structlog.get_logger("syncer")

    async def write(self, action: SlurmAction) -> bool:
        """Write it, with others of its kind. False: somebody else was faster, then the next answer is decided on.

        Raises:
            SlurmError: not done, or nobody knows.
        """
        change = _shared_change(action)
        if change is None:
            async with self._own:
                return await self._write_alone(action)
        joined = self._growing.get(change)
        if joined is None or len(joined.actions) >= MOST_NAMES:
            results = await self._begin(action, change)
        else:
            joined.actions.append(action)
            results = await asyncio.shield(joined.results)
        result = results[action.name]
        if isinstance(result, SlurmError):
            raise result
        return result

    async def _begin(self, action: SlurmAction, change: NodeChange) -> Results:
        """Begin a list, and write it when the one before has been written."""
        mine = _List(actions=[action], results=asyncio.get_running_loop().create_future())
        self._growing[change] = mine
        try:
            async with self._turn:
                self._close(change, mine)
                results = await self._write_list(mine.actions, change)
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

    async def _write_list(self, actions: list[SlurmAction], change: NodeChange) -> Results:
        if len(actions) == 1:
            return {actions[0].name: await self._write_alone(actions[0])}
        results = dict(await asyncio.gather(*map(self._recheck, actions)))
        agreed = [action for action in actions if results[action.name] is True]
        try:
            if agreed:
                await self._slurm.update_nodes([action.name for action in agreed], change)
        except (NotFound, Rejected, Busy) as error:
            self._log.info("a list of Slurm nodes was refused, each goes alone", error=str(error))
            results |= dict(await asyncio.gather(*map(self._repeat, agreed)))
        return results

    async def _recheck(self, action: SlurmAction) -> tuple[str, bool | SlurmError]:
        """Whether the write still holds for the node as it is now."""
        async with self._listed:
            try:
                return action.name, self._holds(action, await self._slurm.node(action.name))
            except SlurmError as error:
                return action.name, error

    async def _repeat(self, action: SlurmAction) -> tuple[str, bool | SlurmError]:
        """What a refused list has done for this node, or has not: then it is done."""
        async with self._listed:
            try:
                is_done = is_in_effect(action, await self._slurm.node(action.name))
                return action.name, is_done or await self._write_alone(action)
            except SlurmError as error:
                return action.name, error

    async def _write_alone(self, action: SlurmAction) -> bool:
        if not self._holds(action, await self._slurm.node(action.name)):
            return False
        match action:
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
        return True

    def _holds(self, action: SlurmAction, node: SlurmNode) -> bool:
        holds = still_holds(action, node)
        if not holds:
            self._log.info("Slurm node has changed meanwhile, decided again", node=action.name)
        return holds


def _shared_change(action: SlurmAction) -> NodeChange | None:
    """What several nodes may be told at once; None for what is each node's own."""
    match action:
        case DrainNode(reason=reason) | RestoreDrain(reason=reason):
            return drain(reason)
        case UndrainNode():
            return UNDRAIN
        case _:
            return None

"""The methods of the Slurm client about nodes: they read, change and delete them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from sunkpy.core.model import hostlist
from sunkpy.core.model.states import SlurmNode
from sunkpy.slurm import errors, wire
from sunkpy.slurm.request import Request
from sunkpy.slurm.transport import Transport

_MANY = 500
_NONE: Mapping[str, SlurmNode] = MappingProxyType({})


class NodesSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All Slurm nodes at one moment. `last_update_s`: the value for the next `nodes(since_s=…)`."""

    nodes: dict[str, SlurmNode]
    last_update_s: int


class NotModified(msgspec.Struct, frozen=True):
    """Slurm's answer that no node has changed since the caller's last snapshot."""


class NodeChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of a Slurm node; unset fields stay. A change without fields only makes slurmctld try to start jobs.

    Args:
        name: the hostlist, if several nodes are changed at once.
        state: one of DRAIN, UNDRAIN, RESUME, DOWN…
        address: one address.
        topology_str: the place in the topology, from API v0.0.43 on; empty takes the node out of its units.
    """

    name: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    reason: str = ""
    comment: str | None = None
    address: tuple[str, ...] = ()
    topology_str: str | None = None

    @property
    def words(self) -> str:
        """The change in words, for an error's text: `DRAIN k8s: cordon`. A new comment appears only as the word
        `comment`.
        """
        parts = [*self.state, self.reason, "comment" if self.comment is not None else "", *self.address]
        parts += [f"topology {self.topology_str or 'none'}"] if self.topology_str is not None else []
        return " ".join(part for part in parts if part.strip()) or "no change"


UNDRAIN = NodeChange(state=("UNDRAIN",))
"""Lifts the drain of a node and nothing else; RESUME would also bring back a node that is down. A node that is down
keeps its reason; another one loses it, except in Slurm 24.11 without accounting (tried). The node is NOT_RESPONDING
for half a second, until slurmctld has pinged it.
"""

RESUME = NodeChange(state=("RESUME",))
"""Brings back a node that is down, and lifts any drain. The reason stays or goes as with UNDRAIN."""

NO_REASON = NodeChange(reason=" ")
"""Replaces the reason of a node by a blank, because Slurm ignores an empty one. A reason that an UNDRAIN or RESUME left
must go: if slurmctld drains a node by itself, the node keeps a reason that it has.
"""


def drain(reason: str) -> NodeChange:
    """Return the change that drains a node: no new job starts, running jobs go on. On a drained node it replaces the
    reason.
    """
    return NodeChange(state=("DRAIN",), reason=reason)


class NodeCalls:
    """The methods of `sunkpy.slurm.client.Slurm` about nodes."""

    _transport: Transport

    async def nodes(self, *, since_s: int = 0, known: Mapping[str, SlurmNode] = _NONE) -> NodesSnapshot | NotModified:
        """Read all nodes; return NotModified if none has changed since `since_s`, the `last_update_s` of an earlier
        answer. It takes 6 ms if nothing has changed, else 0.8 s for 5,000 nodes.

        For a node that is equal to the one in `known`, the result has the object from `known`. The request is not
        repeated on failure, because callers read all nodes again soon. Slurm before 26.05.3 answers 500 to `since_s` if
        nodes have changed but partitions have not; in that case all nodes are read again without `since_s`.
        """
        if since_s:
            try:
                return await self._nodes(since_s, known)
            except errors.Rejected:
                pass
        return await self._nodes(0, known)

    async def _nodes(self, since_s: int, known: Mapping[str, SlurmNode]) -> NodesSnapshot | NotModified:
        params = {"update_time": since_s} if since_s else {}
        request = Request(what="read the nodes", method="GET", endpoint="nodes/", params=params, attempts=1)
        reply = await self._transport.call(request, wire.NodesReply)
        if reply is None:
            return NotModified()
        if len(reply.nodes) < _MANY:
            nodes = _to_core(reply.nodes, known)
        else:
            nodes = await asyncio.to_thread(_to_core, reply.nodes, known)
        return NodesSnapshot(nodes=nodes, last_update_s=reply.last_update.value)

    async def node(self, name: str) -> SlurmNode:
        """Read one node. It takes 2–4 ms.

        Raises:
            NotFound: Slurm has no such node.
        """
        request = Request(what=f"read Slurm node {name}", method="GET", endpoint="node/{name}", name=name)
        try:
            reply = await self._transport.ask(request, wire.NodesReply)
        except errors.Rejected as error:
            # Slurm answers 200 with error number 0 for a node that it does not know.
            if error.error_number == 0 and error.http_status == 200:
                raise errors.NotFound(request.what, endpoint=request.label, text="Slurm has no such node") from error
            raise
        found = next((node for node in reply.nodes if node.name == name), None)
        if found is None:
            raise errors.NotFound(request.what, endpoint=request.label, text="not among the nodes of the answer")
        return found.to_core()

    async def update_node(self, name: str, change: NodeChange) -> None:
        """Change a node. If no answer comes, the request is not sent again: before you repeat it, read the node,
        because others may have changed it.

        Raises:
            Unreachable: the change may or may not have been made.
            Rejected: the change is not possible, such as UNDRAIN of a node that is not drained (2028, 2180 on 26.05).
            NotFound: Slurm has no such node.
        """
        what = f"update Slurm node {name} ({change.words})"
        request = Request(what=what, method="POST", endpoint="node/{name}", name=name, body=change, attempts=1)
        await self._transport.call(request, wire.Reply)

    async def update_nodes(self, names: Iterable[str], change: NodeChange) -> None:
        """Make the same change to several nodes in one request, so that slurmctld takes its locks and saves its state
        only once.

        If no answer comes, the request is not sent again. After an error, some of the nodes may have been changed.
        slurmctld stops at a node that it does not know (NotFound), and goes on after a node that it cannot change
        (Rejected).
        """
        listed = hostlist.compress(names)
        request = Request(
            what=f"update Slurm nodes {listed} ({change.words})",
            method="POST",
            endpoint="nodes/",
            body=msgspec.structs.replace(change, name=(listed,)),
            attempts=1,
        )
        await self._transport.call(request, wire.Reply)

    async def drain_node(self, name: str, reason: str) -> None:
        """Drain a Slurm node: no new job starts on it, and running jobs go on. If it is drained already, replace the
        reason.
        """
        await self.update_node(name, drain(reason))

    async def undrain_node(self, name: str) -> None:
        """Lift the drain of a Slurm node, and replace its reason by a blank. A node that is down stays down."""
        await self.update_node(name, msgspec.structs.replace(UNDRAIN, reason=NO_REASON.reason))

    async def delete_node(self, name: str) -> None:
        """Delete a dynamic node from Slurm. If no answer comes, the request is not sent again, because a new slurmd
        with this node name may have registered since.

        Raises:
            Busy: the node has jobs.
            NotFound: the node is already gone.
        """
        what = f"delete Slurm node {name}"
        request = Request(what=what, method="DELETE", endpoint="node/{name}", name=name, attempts=1)
        await self._transport.call(request, wire.Reply)


def _to_core(listed: Iterable[wire.WireNode], known: Mapping[str, SlurmNode]) -> dict[str, SlurmNode]:
    nodes = {}
    for wired in listed:
        node, old = wired.to_core(), known.get(wired.name)
        nodes[wired.name] = old if old is not None and old == node else node
    return nodes

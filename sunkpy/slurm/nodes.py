"""What sunkpy asks of Slurm about nodes, and what it changes on them."""

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
    """All nodes at one moment. `last_update_s`: the value for the next `nodes(since_s=…)`."""

    nodes: dict[str, SlurmNode]
    last_update_s: int


class NotModified(msgspec.Struct, frozen=True):
    """Slurm says that nothing has changed since the snapshot you have. Not the same as: there is nothing."""


class NodeChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields of a node to change; unset ones stay. `state` is DRAIN, UNDRAIN, RESUME, DOWN…; one `address`.

    One without fields changes nothing, and has slurmctld look at its queue.

    `name` is for changes of several nodes at once: a hostlist. `topology_str` is known from v0.0.43 on; empty, it takes
    the node out of what its record names.
    """

    name: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    reason: str = ""
    comment: str | None = None
    address: tuple[str, ...] = ()
    topology_str: str | None = None

    @property
    def words(self) -> str:
        """The change in words, for the text of an error: `DRAIN k8s: cordon`. A comment is named, not quoted."""
        parts = [*self.state, self.reason, "comment" if self.comment is not None else "", *self.address]
        parts += [f"topology {self.topology_str or 'none'}"] if self.topology_str is not None else []
        return " ".join(part for part in parts if part) or "no change"


UNDRAIN = NodeChange(state=("UNDRAIN",), reason=" ")
"""Lifts the drain and nothing else: RESUME would also bring back a node that is down.

The reason goes too: 24.11 keeps it (and ignores an empty one), and a later drain without a reason would then look like
the one that was lifted. The node is NOT_RESPONDING until slurmctld has pinged it, half a second.
"""

RESUME = NodeChange(state=("RESUME",), reason=" ")
"""Returns a node that is down, and lifts any drain. 24.11 would keep the reason, as with UNDRAIN."""


def drain(reason: str) -> NodeChange:
    """Let no new job start on the node; running jobs go on. If the node is drained already, replace the reason."""
    return NodeChange(state=("DRAIN",), reason=reason)


class NodeCalls:
    """The part of `sunkpy.slurm.client.Slurm` that is about nodes."""

    _transport: Transport

    async def nodes(self, *, since_s: int = 0, known: Mapping[str, SlurmNode] = _NONE) -> NodesSnapshot | NotModified:
        """Read all nodes; NotModified if none has changed since `since_s`. 6 ms unchanged, otherwise 0.8 s per 5,000
        nodes.

        A node that is as it was in `known` is the same object. Sent once, because a caller that reads all nodes reads
        them again soon. Slurm before 26.05.3 answers 500 when nodes have changed but partitions have not: then asked
        again without.
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
        """Read one node. 2–4 ms.

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
        """Change a node. Sent once: read the node before a repetition, because others may have changed it.

        Raises:
            Unreachable: it is not known whether it was carried out.
            Rejected: no such transition, e.g. UNDRAIN of a node that is not drained (2028, 2180 on 26.05).
            NotFound: Slurm has no such node.
        """
        what = f"update Slurm node {name} ({change.words})"
        request = Request(what=what, method="POST", endpoint="node/{name}", name=name, body=change, attempts=1)
        await self._transport.call(request, wire.Reply)

    async def update_nodes(self, names: Iterable[str], change: NodeChange) -> None:
        """Make the same change to several nodes at once: slurmctld takes its locks and saves its state once.

        Sent once, as `update_node`.
        Not all or nothing: a node that slurmctld does not know ends its work on the list (NotFound), one that cannot be
        changed does not (Rejected). After either error some of them have been changed.
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
        """See `drain`."""
        await self.update_node(name, drain(reason))

    async def undrain_node(self, name: str) -> None:
        """Lift the drain and nothing else: see UNDRAIN."""
        await self.update_node(name, UNDRAIN)

    async def delete_node(self, name: str) -> None:
        """Forget a dynamic node. Sent once: the next slurmd of that name may have registered since.

        Raises:
            Busy: jobs are on it.
            NotFound: it is gone already.
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

"""A client of one Slurm cluster through its slurmrestd, with one method for each request.

The methods about nodes are in `sunkpy.slurm.nodes`, those about jobs in `jobs`, those about accounts in `accounting`,
those for metrics in `figures`, and those for lists of all jobs in `overview`. All raise
`sunkpy.slurm.errors.SlurmError`; their docstrings name the kinds that callers may want to tell apart, and the costs.
"""

from __future__ import annotations

from typing import Final, Self

import cachetools
import msgspec

from sunkpy.runtime.deadline import Deadline, unlimited
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import wire
from sunkpy.slurm.accounting import AccountingCalls
from sunkpy.slurm.auth import token_source
from sunkpy.slurm.figures import FigureCalls
from sunkpy.slurm.jobs import JobCalls
from sunkpy.slurm.nodes import NodeCalls
from sunkpy.slurm.overview import OverviewCalls
from sunkpy.slurm.recorder import Recorder
from sunkpy.slurm.relay import Relay
from sunkpy.slurm.request import Request
from sunkpy.slurm.transport import Transport

_REMEMBERED: Final = 1024


class Ping(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a ping. `version`: the API's; `release`: Slurm's. `is_up`: at least one slurmctld responds."""

    version: str
    release: str
    cluster: str
    is_up: bool


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of Slurm; `nodes` is a hostlist."""

    name: str
    nodes: str = ""
    priority_tier: int = 0


class Slurm(NodeCalls, JobCalls, AccountingCalls, FigureCalls, OverviewCalls):
    """A client of one Slurm cluster. Close it when done."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._unreadable = cachetools.LRUCache(_REMEMBERED)

    @classmethod
    def connect(
        cls, settings: SlurmSettings, *, recorder: Recorder | None = None, deadline: Deadline = unlimited
    ) -> Self:
        """Return a client for these settings. Nothing is sent yet. `deadline` returns for how many seconds writes may
        still be sent; after that a write raises LeaseOver.
        """
        tokens = token_source(settings)
        transport = Transport(
            settings.url,
            tokens,
            version=settings.version,
            reader=settings.reader,
            recorder=recorder,
            deadline=deadline,
        )
        return cls(transport)

    @classmethod
    def through(cls, relay: Relay) -> Self:
        """Return a client that sends its requests through a relay, a program in a pod. The first request starts that
        program.
        """
        return cls(Transport("the scheduler's pod", relay, connection=relay))

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    @property
    def user(self) -> str:
        """The Slurm user of this client's requests, by its token; empty if the token does not say."""
        return self._transport.user

    async def ping(self) -> Ping:
        """Ask slurmrestd for its release, and whether slurmctld responds. The token is not checked for this."""
        reply = await self._transport.ask(Request(what="ping Slurm", method="GET", endpoint="ping/"), wire.PingReply)
        return Ping(
            version=await self._transport.version(),
            release=reply.meta.slurm.release,
            cluster=reply.meta.slurm.cluster,
            is_up=any(ping.responding for ping in reply.pings),
        )

    async def reading_s(self) -> float:
        """Return the seconds that slurmctld has spent since its start on reads of nodes and partitions by all
        clients.
        """
        request = Request(what="read slurmctld's statistics", method="GET", endpoint="diag/", attempts=1)
        reply = await self._transport.ask(request, wire.DiagReply)
        return sum(rpc.total_time for rpc in reply.statistics.rpcs_by_message_type if rpc.is_read_of_nodes) / 1e6

    async def partitions(self) -> list[Partition]:
        """Read all partitions. It takes 2–4 ms."""
        request = Request(what="read the partitions", method="GET", endpoint="partitions/")
        reply = await self._transport.ask(request, wire.PartitionsReply)
        return [
            Partition(
                name=partition.name,
                nodes=partition.nodes.configured,
                priority_tier=partition.priority.tier,
            )
            for partition in reply.partitions
        ]

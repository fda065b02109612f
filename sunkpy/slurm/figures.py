"""What sunkpy asks of Slurm to count it: jobs in short, partitions, statistics. Costs: see each method.

As in `sunkpy.slurm.wire` only the fields that are used are declared, so that most of the answer is never allocated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.figures.nodes import PartitionRow
from sunkpy.core.figures.reservations import License, Reservation
from sunkpy.core.figures.statistics import Rpc, Statistics
from sunkpy.core.model import hostlist
from sunkpy.core.model.gres import Indices, gres_counts, gres_indices
from sunkpy.core.model.states import JobId, holds_something, is_job_pending
from sunkpy.slurm.request import Request
from sunkpy.slurm.transport import Transport
from sunkpy.slurm.waiting import WireWaiting, count_tasks, mib, tres_amounts
from sunkpy.slurm.wire import Number, Reply, flags

_GPU: Final = "gpu"
_SHARED: Final = "v0.0.44"
"""Later API versions do not say whether a job that waits wants whole nodes."""


class NodeName(msgspec.Struct, frozen=True):
    """A node of a job."""

    name: str = ""


class NodeNames(msgspec.Struct, frozen=True):
    """The nodes of a job in the order of `gres_detail`."""

    allocation: tuple[NodeName, ...] | None = ()


class Holdings(msgspec.Struct, frozen=True):
    """The resources that a job has, once it runs."""

    nodes: NodeNames | None = None


class WireJobRow(WireWaiting, frozen=True, kw_only=True):
    """An entry of `jobs`, with fewer fields than `sunkpy.slurm.wire.WireJob`."""

    comment: str = ""
    admin_comment: str = ""
    nodes: str | None = ""
    tres_alloc_str: str = ""
    gres_detail: tuple[str, ...] | None = ()
    job_resources: Holdings | None = None
    submit_time: Number = Number()
    eligible_time: Number = Number()
    start_time: Number = Number()

    def to_core(self, scheduler: str, started: int | None = 0) -> JobRow:
        """The job as figures read it. `scheduler`: the Slurm user of the scheduler, whose comments nobody else can have
        written.

        `started`: how many tasks of its array run; None if nobody asks what it waits for.
        """
        state, tres = flags(self.job_state), tres_amounts(self.tres_alloc_str)
        counted = sum(gres_counts(text).get(_GPU, 0) for text in self.gres_detail or ())
        has_started = bool(self.nodes) and not is_job_pending(state)  # that which waits has an estimate
        started_s = self.start_time.value if has_started else 0
        return JobRow(
            id=self.job_id,
            state=state,
            reason=self.reason,
            user=self.user_name,
            account=self.account,
            partition=self.partition,
            tasks=count_tasks(self.array_task_string),
            min_nodes=self.node_count.value,
            max_nodes=self.max_nodes.value,
            nodes=_expand(self.nodes or ""),
            cpus=self.cpus.value,
            memory_mib=mib(tres.get("mem", "")),
            gpus=int(tres.get("gres/gpu", counted)),
            devices=self._devices,
            comment=self.comment if self.user_name == scheduler else self.admin_comment,
            started_s=started_s,
            waited_s=max(0, started_s - (self.eligible_time.value or self.submit_time.value)) if started_s else 0,
            waits=self.waits(started) if started is not None else None,
        )

    @property
    def _devices(self) -> dict[str, Indices]:
        nodes = self.job_resources.nodes if self.job_resources is not None else None
        pairs = zip((nodes.allocation if nodes is not None else None) or (), self.gres_detail or (), strict=False)
        return {node.name: indices for node, text in pairs if (indices := gres_indices(text))}


class JobRowsReply(Reply, frozen=True, kw_only=True):
    """GET job/{id}."""

    jobs: tuple[WireJobRow, ...] = ()


class RowNodes(msgspec.Struct, frozen=True):
    """The nodes of a partition, in Slurm's range syntax."""

    configured: str = ""


class RowPriority(msgspec.Struct, frozen=True):
    """PriorityTier of slurm.conf(5)."""

    tier: int = 0


class WirePartitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `partitions`."""

    name: str
    nodes: RowNodes = RowNodes()
    priority: RowPriority = RowPriority()

    def to_core(self) -> PartitionRow:
        """The partition as figures read it."""
        nodes = _expand(self.nodes.configured)
        return PartitionRow(name=self.name, nodes=nodes, tier=self.priority.tier)


class PartitionRowsReply(Reply, frozen=True, kw_only=True):
    """GET partitions/."""

    partitions: tuple[WirePartitionRow, ...] = ()


class WireLicense(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """An entry of `licenses`."""

    license_name: str = ""
    total: int = 0
    used: int = 0
    free: int = 0
    reserved: int = 0


class LicensesReply(Reply, frozen=True, kw_only=True):
    """GET licenses/."""

    licenses: tuple[WireLicense, ...] = ()


class WireReservation(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `reservations`."""

    name: str = ""
    node_count: int = 0
    start_time: Number = Number()
    end_time: Number = Number()


class ReservationsReply(Reply, frozen=True, kw_only=True):
    """GET reservations/."""

    reservations: tuple[WireReservation, ...] = ()


class StatisticsReply(Reply, frozen=True, kw_only=True):
    """GET diag/: numbers, optional numbers and parts of numbers by name, and the lists of requests."""

    statistics: dict[str, object] = msgspec.field(default_factory=dict)


class WireRpcRow(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `rpcs_by_message_type` or `rpcs_by_user`."""

    message_type: str = ""
    user: str = ""
    count: int = 0
    total_time: int = 0


class FigureCalls:
    """The calls of `sunkpy.slurm.client.Slurm` that serve figures."""

    _transport: Transport

    async def job_rows(self, job_id: JobId, *, scheduler: str, with_waits: bool = True) -> list[JobRow]:
        """A job; of an array each record: tasks that have started, and one for those that wait. 2–4 ms.

        `with_waits`: also what it asks of nodes while it waits.

        Raises:
            NotFound: Slurm does not remember it.
        """
        request = Request(
            what=f"count job {job_id}", method="GET", endpoint="job/{name}", name=job_id, attempts=1, newest=_SHARED
        )
        jobs = (await self._transport.ask(request, JobRowsReply)).jobs
        states = [flags(job.job_state) for job in jobs]
        started = sum(holds_something(state) and not is_job_pending(state) for state in states)
        return [job.to_core(scheduler, started if with_waits else None) for job in jobs]

    async def partition_rows(self) -> list[PartitionRow]:
        """Read all partitions with their nodes. 2–4 ms."""
        request = Request(what="count the partitions", method="GET", endpoint="partitions/", attempts=1)
        reply = await self._transport.ask(request, PartitionRowsReply)
        return await asyncio.to_thread(lambda: [each.to_core() for each in reply.partitions])

    async def licenses(self) -> list[License]:
        """Read all licenses. 2–4 ms."""
        request = Request(what="count the licenses", method="GET", endpoint="licenses/", attempts=1)
        reply = await self._transport.ask(request, LicensesReply)
        return [
            License(name=e.license_name, total=e.total, used=e.used, free=e.free, reserved=e.reserved)
            for e in reply.licenses
        ]

    async def reservations(self) -> list[Reservation]:
        """Read all reservations. 2–4 ms."""
        request = Request(what="count the reservations", method="GET", endpoint="reservations/", attempts=1)
        reply = await self._transport.ask(request, ReservationsReply)
        return [
            Reservation(name=e.name, nodes=e.node_count, starts_s=e.start_time.value, ends_s=e.end_time.value)
            for e in reply.reservations
        ]

    async def statistics(self) -> Statistics:
        """Read slurmctld's statistics about itself. 2–4 ms."""
        request = Request(what="read slurmctld's statistics", method="GET", endpoint="diag/", attempts=1)
        said = (await self._transport.ask(request, StatisticsReply)).statistics
        return Statistics(
            figures=dict(_numbers(said)),
            by_type=_rpcs(said.get("rpcs_by_message_type")),
            by_user=_rpcs(said.get("rpcs_by_user")),
        )


def _expand(text: str) -> tuple[str, ...]:
    """What cannot be read counts as no nodes."""
    try:
        return tuple(hostlist.expand(text))
    except hostlist.BadHostlist:
        return ()


def _numbers(said: Mapping[str, object], before: str = "") -> Iterator[tuple[str, int]]:
    for name, value in said.items():
        if isinstance(value, dict) and "number" in value:
            yield before + name, int(value["number"])
        elif isinstance(value, dict):
            yield from _numbers(value, f"{name}.")
        elif isinstance(value, int | float):
            yield before + name, int(value)


def _rpcs(listed: object) -> tuple[Rpc, ...]:
    entries: Iterable[WireRpcRow] = msgspec.convert(listed or (), tuple[WireRpcRow, ...])
    return tuple(Rpc(name=e.message_type or e.user, count=e.count, total_us=e.total_time) for e in entries)

"""Requests to Slurm for metrics: jobs in short form, partitions, licenses, reservations, statistics.

As in `sunkpy.slurm.wire` only the fields that are used are declared, so that most of an answer is never allocated.
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
"""The last API version that says whether a pending job wants whole nodes."""


class NodeName(msgspec.Struct, frozen=True):
    """The name of a job's node in slurmrestd's answer."""

    name: str = ""


class NodeNames(msgspec.Struct, frozen=True):
    """The nodes of a job, in the same order as the entries of `gres_detail`, the job's list of GRES for each node."""

    allocation: tuple[NodeName, ...] | None = ()


class Holdings(msgspec.Struct, frozen=True):
    """The resources that a running job has: here only its nodes."""

    nodes: NodeNames | None = None


class WireJobRow(WireWaiting, frozen=True, kw_only=True):
    """A job in slurmrestd's answer, with the fields that metrics need."""

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
        """Return the job as metrics use it. `scheduler`: the Slurm user of sunkpy's scheduler. For jobs of other users
        the admin comment is taken in place of the comment, because only slurmctld writes it.

        `started`: how many tasks of the job's array have started; None leaves out what a pending job requests of nodes.
        """
        state, tres = flags(self.job_state), tres_amounts(self.tres_alloc_str)
        counted = sum(gres_counts(text).get(_GPU, 0) for text in self.gres_detail or ())
        has_started = bool(self.nodes) and not is_job_pending(state)  # the start time of a pending job is an estimate
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
    """The answer to GET job/{id}, with the fields that metrics need."""

    jobs: tuple[WireJobRow, ...] = ()


class RowNodes(msgspec.Struct, frozen=True):
    """The nodes of a partition, in Slurm's range syntax."""

    configured: str = ""


class RowPriority(msgspec.Struct, frozen=True):
    """A partition's PriorityTier, slurm.conf(5)."""

    tier: int = 0


class WirePartitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A partition in slurmrestd's answer, with the fields that metrics need."""

    name: str
    nodes: RowNodes = RowNodes()
    priority: RowPriority = RowPriority()

    def to_core(self) -> PartitionRow:
        """Return the partition as metrics use it."""
        nodes = _expand(self.nodes.configured)
        return PartitionRow(name=self.name, nodes=nodes, tier=self.priority.tier)


class PartitionRowsReply(Reply, frozen=True, kw_only=True):
    """The answer to GET partitions/, with the fields that metrics need."""

    partitions: tuple[WirePartitionRow, ...] = ()


class WireLicense(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """A license in slurmrestd's answer."""

    license_name: str = ""
    total: int = 0
    used: int = 0
    free: int = 0
    reserved: int = 0


class LicensesReply(Reply, frozen=True, kw_only=True):
    """The answer to GET licenses/."""

    licenses: tuple[WireLicense, ...] = ()


class WireReservation(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation in slurmrestd's answer."""

    name: str = ""
    node_count: int = 0
    start_time: Number = Number()
    end_time: Number = Number()


class ReservationsReply(Reply, frozen=True, kw_only=True):
    """The answer to GET reservations/."""

    reservations: tuple[WireReservation, ...] = ()


class StatisticsReply(Reply, frozen=True, kw_only=True):
    """The answer to GET diag/: numbers by name, some of them nested, and two lists of requests."""

    statistics: dict[str, object] = msgspec.field(default_factory=dict)


class WireRpcRow(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests (RPCs) of one type or one user slurmctld has handled, and in how many microseconds: an entry of
    a list in the answer to GET diag/.
    """

    message_type: str = ""
    user: str = ""
    count: int = 0
    total_time: int = 0


class FigureCalls:
    """The methods of `sunkpy.slurm.client.Slurm` that serve metrics."""

    _transport: Transport

    async def job_rows(self, job_id: JobId, *, scheduler: str, with_waits: bool = True) -> list[JobRow]:
        """Read a job; of an array, a row for each started task and one for all pending tasks. It takes 2–4 ms.

        `scheduler`: the Slurm user of sunkpy's scheduler. `with_waits`: the row of a pending job also says what the job
        requests of nodes.

        Raises:
            NotFound: Slurm does not remember the job.
        """
        request = Request(
            what=f"count job {job_id}", method="GET", endpoint="job/{name}", name=job_id, attempts=1, newest=_SHARED
        )
        jobs = (await self._transport.ask(request, JobRowsReply)).jobs
        states = [flags(job.job_state) for job in jobs]
        started = sum(holds_something(state) and not is_job_pending(state) for state in states)
        return [job.to_core(scheduler, started if with_waits else None) for job in jobs]

    async def partition_rows(self) -> list[PartitionRow]:
        """Read all partitions with their nodes. It takes 2–4 ms."""
        request = Request(what="count the partitions", method="GET", endpoint="partitions/", attempts=1)
        reply = await self._transport.ask(request, PartitionRowsReply)
        return await asyncio.to_thread(lambda: [each.to_core() for each in reply.partitions])

    async def licenses(self) -> list[License]:
        """Read all licenses. It takes 2–4 ms."""
        request = Request(what="count the licenses", method="GET", endpoint="licenses/", attempts=1)
        reply = await self._transport.ask(request, LicensesReply)
        return [
            License(name=e.license_name, total=e.total, used=e.used, free=e.free, reserved=e.reserved)
            for e in reply.licenses
        ]

    async def reservations(self) -> list[Reservation]:
        """Read all reservations. It takes 2–4 ms."""
        request = Request(what="count the reservations", method="GET", endpoint="reservations/", attempts=1)
        reply = await self._transport.ask(request, ReservationsReply)
        return [
            Reservation(name=e.name, nodes=e.node_count, starts_s=e.start_time.value, ends_s=e.end_time.value)
            for e in reply.reservations
        ]

    async def statistics(self) -> Statistics:
        """Read slurmctld's statistics about itself. It takes 2–4 ms."""
        request = Request(what="read slurmctld's statistics", method="GET", endpoint="diag/", attempts=1)
        said = (await self._transport.ask(request, StatisticsReply)).statistics
        return Statistics(
            figures=dict(_numbers(said)),
            by_type=_rpcs(said.get("rpcs_by_message_type")),
            by_user=_rpcs(said.get("rpcs_by_user")),
        )


def _expand(text: str) -> tuple[str, ...]:
    """Return the nodes of a hostlist; none if it cannot be read."""
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

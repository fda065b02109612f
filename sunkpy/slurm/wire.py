"""Types of slurmrestd's answers, v0.0.42 … v0.0.45, and their conversion to `sunkpy.core.model.states`.

Only the fields that are used are declared. All others are skipped without allocation, so 5,000 nodes are decoded in
milliseconds, and fields that a later API version drops or adds do no harm.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Self

import msgspec

from sunkpy.core.model import hostlist
from sunkpy.core.model.capacity import Capacity
from sunkpy.core.model.gres import Indices, gres_count, gres_counts, gres_indices
from sunkpy.core.model.layout import JobShare, Layout, lay_out
from sunkpy.core.model.states import JobId, SlurmJob, SlurmNode, is_job_ended, is_job_pending
from sunkpy.slurm.pieces import decode_in_pieces


class Number(msgspec.Struct, frozen=True):
    """Slurm's optional number: unset, infinite (then `number` is 0), or a value."""

    set: bool = False
    infinite: bool = False
    number: int | float = 0

    @property
    def value(self) -> int:
        """The number; 0 if it is unset or infinite."""
        return int(self.number) if self.set else 0


class Failure(msgspec.Struct, frozen=True):
    """An error or a warning in slurmrestd's answer."""

    error_number: int = 0
    error: str = ""
    description: str = ""

    @property
    def text(self) -> str:
        """Slurm's name for the error, then its description."""
        return ": ".join(part for part in (self.error, self.description) if part)


class Release(msgspec.Struct, frozen=True):
    """Slurm's release, and the ClusterName of slurm.conf."""

    release: str = ""
    cluster: str = ""


class MetaData(msgspec.Struct, frozen=True):
    """The object `meta` of every answer."""

    slurm: Release = Release()


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that every answer has. Success is 2xx and no errors."""

    meta: MetaData = MetaData()
    errors: tuple[Failure, ...] = ()
    warnings: tuple[Failure, ...] = ()

    @classmethod
    def read(cls, text: bytes) -> Self:
        """Decode an answer.

        Raises:
            msgspec.DecodeError: the text is no such answer.
        """
        return msgspec.json.decode(text, type=cls)


class WireNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node in slurmrestd's answer. `state` is required: a node without state would look open and idle."""

    name: str
    state: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    reason: str = ""
    reason_set_by_user: str = ""
    reason_changed_at: Number = Number()
    comment: str = ""
    address: str = ""
    slurmd_start_time: Number = Number()
    cpus: int = 0
    alloc_cpus: int = 0
    alloc_memory: int = 0
    real_memory: int = 0
    effective_cpus: int = 0
    specialized_memory: int = 0
    gres: str = ""
    features: tuple[str, ...] | None = ()
    extra: str = ""
    topology: str = ""
    sockets: int = 0
    cores: int = 0
    threads: int = 0
    specialized_cores: int = 0

    def to_core(self) -> SlurmNode:
        """Return the node as the `SlurmNode` that sunkpy's decisions read."""
        return SlurmNode(
            name=self.name,
            state=flags(self.state),
            reason=self.reason.strip(),
            reason_by=self.reason_set_by_user if self.reason.strip() else "",
            reason_since_s=self.reason_changed_at.value if self.reason.strip() else 0,
            comment=self.comment,
            address=self.address,
            slurmd_since_s=self.slurmd_start_time.value,
            cpus=self.cpus,
            alloc_cpus=self.alloc_cpus,
            alloc_memory_mib=self.alloc_memory,
            memory_mib=self.real_memory,
            effective_cpus=self.effective_cpus,
            effective_memory_mib=self.real_memory - self.specialized_memory,
            gres=self.gres,
            features=flags(self.features or ()),
            extra=self.extra,
            topology=self.topology,
            sockets=self.sockets,
            cores=self.cores,
            threads=self.threads,
            special_cores=self.specialized_cores,
        )


@lru_cache(maxsize=1024)
def flags(state: tuple[str, ...]) -> frozenset[str]:
    """Return the flags of a state as a set. Thousands of nodes or jobs have few states, so each set is cached."""
    return frozenset(state)


class NodesReply(Reply, frozen=True, kw_only=True):
    """The answer to GET nodes/ and GET node/{name}."""

    nodes: tuple[WireNode, ...] = ()
    last_update: Number = Number()

    @classmethod
    def read(cls, text: bytes) -> Self:
        """Decode the JSON text of an answer. A long list of nodes is decoded in pieces, so that other threads can run
        in between.
        """
        return decode_in_pieces(text, cls, field="nodes", entry=WireNode)


class ExitSignal(msgspec.Struct, frozen=True):
    """The signal that ended a job."""

    id: Number = Number()


class ExitCode(msgspec.Struct, frozen=True):
    """The end of a job: an exit code of its own, or a signal."""

    return_code: Number = Number()
    signal: ExitSignal = ExitSignal()

    @property
    def value(self) -> int:
        """The exit code as a shell gives it: 128 + n for signal n."""
        signal = self.signal.id.value
        return 128 + signal if signal else self.return_code.value


class AllocatedCpus(msgspec.Struct, frozen=True):
    """The CPUs that a job has on one node."""

    count: int = 0


class AllocatedMemory(msgspec.Struct, frozen=True):
    """The memory that a job has on one node, in MiB."""

    allocated: int = 0


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that a job has on one node."""

    name: str = ""
    cpus: AllocatedCpus = AllocatedCpus()
    memory: AllocatedMemory = AllocatedMemory()


class AllocatedNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a job with what it has on each, in the same order as `gres_detail`, the job's list of GRES for each
    node.
    """

    allocation: tuple[Allocation, ...] | None = ()


class JobResources(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that a running job has."""

    nodes: AllocatedNodes | None = None


class WireJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job in slurmrestd's answer."""

    job_id: int
    name: str = ""
    job_state: tuple[str, ...] = ()
    state_reason: str = ""
    comment: str = ""
    admin_comment: str = ""
    user_name: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    resv_name: str = ""
    features: str = ""
    licenses: str = ""
    required_switches: int = 0
    time_limit: Number = Number()
    priority: Number = Number()
    nodes: str | None = ""
    scheduled_nodes: str = ""
    node_count: Number = Number()
    required_nodes: str = ""
    excluded_nodes: str = ""
    exit_code: ExitCode = ExitCode()
    start_time: Number = Number()
    end_time: Number = Number()
    batch_flag: bool = True
    tasks: Number = Number()
    cpus_per_task: Number = Number()
    tres_per_task: str = ""
    gres_detail: tuple[str, ...] | None = ()
    job_resources: JobResources | None = None

    @property
    def layout(self) -> Layout:
        """How many tasks of the job are on each of its nodes; empty before it has nodes. `gres_detail` is in the order
        of the nodes.
        """
        allocation, details = self._allocation, self._details
        gres = [gres_count(text) for text in details] if details else [0] * len(allocation)
        shares = [JobShare(node=a.name, cpus=a.cpus.count, gres=n) for a, n in zip(allocation, gres, strict=True)]
        task = JobShare(cpus=self.cpus_per_task.value, gres=gres_count(self.tres_per_task) if any(gres) else 0)
        return lay_out(shares, tasks=self.tasks.value, task=task)

    @property
    def devices(self) -> dict[str, Indices]:
        """Node → the indices of the job's GRES devices there, such as GPU 0 and 1; empty before the job has nodes."""
        pairs = zip(self._allocation, self._details, strict=False)
        return {node.name: indices for node, text in pairs if (indices := gres_indices(text))}

    @property
    def capacity(self) -> dict[str, Capacity]:
        """Node → what the job has of it (CPUs, memory, GRES); empty before the job has nodes. The GRES are None if
        `gres_detail` does not fit the nodes; a job without GRES has an empty `gres_detail`.
        """
        allocation, details = self._allocation, self._details
        if self.gres_detail and not details:
            gres: list[dict[str, int] | None] = [None] * len(allocation)
        else:
            gres = [gres_counts(text) for text in details] if details else [{} for _ in allocation]
        return {
            each.name: Capacity(cpus=each.cpus.count, memory_mib=each.memory.allocated, gres=counts)
            for each, counts in zip(allocation, gres, strict=True)
        }

    @property
    def _allocation(self) -> tuple[Allocation, ...]:
        nodes = self.job_resources.nodes if self.job_resources is not None else None
        return (nodes.allocation if nodes is not None else None) or ()

    @property
    def _details(self) -> tuple[str, ...]:
        """The job's GRES on each node, in Slurm's words; empty if Slurm does not give them for all nodes."""
        details = self.gres_detail or ()
        return details if len(details) == len(self._allocation) else ()

    @property
    def without_places(self) -> WireJob:
        """The job without the fields that say on which nodes it is, or may be."""
        return msgspec.structs.replace(
            self,
            nodes="",
            scheduled_nodes="",
            required_nodes="",
            excluded_nodes="",
            gres_detail=(),
            job_resources=None,
        )

    def to_core(self) -> SlurmJob:
        """Return the job as the `SlurmJob` that sunkpy's decisions read.

        Raises:
            ValueError: a list of nodes is no hostlist, or the job's share of a node cannot be read.
        """
        state = frozenset(self.job_state)
        return SlurmJob(
            id=JobId(self.job_id),
            name=self.name,
            state=state,
            state_reason="" if self.state_reason == "None" else self.state_reason,
            comment=self.comment,
            admin_comment=self.admin_comment,
            user=self.user_name,
            account=self.account,
            partition=self.partition,
            qos=self.qos,
            reservation=self.resv_name,
            constraint=self.features,
            licenses=self.licenses,
            switches=self.required_switches,
            time_limit_min=0 if self.time_limit.infinite else self.time_limit.value or None,
            priority=self.priority.value,
            nodes=tuple(hostlist.expand(self.nodes or "")),
            scheduled_nodes=tuple(hostlist.expand(self.scheduled_nodes)),
            node_count=self.node_count.value,
            tasks=self.tasks.value,
            layout=self.layout,
            devices=self.devices,
            capacity=self.capacity,
            required_nodes=tuple(hostlist.expand(self.required_nodes)),
            excluded_nodes=tuple(sorted(hostlist.expand(self.excluded_nodes))),
            exit_code=self.exit_code.value,
            # For a pending job Slurm gives an estimate, which changes each time.
            started_s=0 if is_job_pending(state) else self.start_time.value,
            ended_s=self.end_time.value if is_job_ended(state) else 0,
            is_batch=self.batch_flag,
        )


class JobsReply(Reply, frozen=True, kw_only=True):
    """The answer to GET job/{id} and GET jobs/."""

    jobs: tuple[WireJob, ...] = ()


class WireJobState(msgspec.Struct, frozen=True, kw_only=True):
    """A job's state in the answer to GET jobs/state/. The ID of an array task is `<job>_<task>`, that of a component of
    a heterogeneous job `<leader>+<n>`.
    """

    job_id: str | int
    state: tuple[str, ...] = ()

    @property
    def id(self) -> JobId:
        """The ID of the job; for a task the array's, for a component the heterogeneous job's."""
        return JobId(int(str(self.job_id).partition("_")[0].partition("+")[0]))


class JobsStateReply(Reply, frozen=True, kw_only=True):
    """The answer to GET jobs/state/."""

    jobs: tuple[WireJobState, ...] = ()

    @classmethod
    def read(cls, text: bytes) -> Self:
        """Decode the JSON text of an answer. A long list of jobs is decoded in pieces, so that other threads can run in
        between.
        """
        return decode_in_pieces(text, cls, field="jobs", entry=WireJobState)


class SubmitReply(Reply, frozen=True, kw_only=True):
    """The answer to POST job/submit and POST job/allocate."""

    job_id: int = 0


class KillFailure(msgspec.Struct, frozen=True, kw_only=True):
    """The error of one job in the answer to a DELETE; code 0 is success."""

    code: int | str = 0
    message: str = ""


class KillStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one job in the answer to a DELETE. The answer's HTTP status may be 200 even if this failed."""

    error: KillFailure = KillFailure()


class KillReply(Reply, frozen=True, kw_only=True):
    """The answer to DELETE job/{id}."""

    status: tuple[KillStatus, ...] | None = ()


class WirePing(msgspec.Struct, frozen=True, kw_only=True):
    """A slurmctld in the answer to a ping, and whether it responds to slurmrestd."""

    responding: bool = False


class PingReply(Reply, frozen=True, kw_only=True):
    """The answer to GET ping/."""

    pings: tuple[WirePing, ...] = ()


class PartitionNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a partition, in Slurm's range syntax."""

    configured: str = ""


class PartitionPriority(msgspec.Struct, frozen=True, kw_only=True):
    """A partition's PriorityTier, slurm.conf(5): jobs of a higher tier go first, and preempt if that is configured."""

    tier: int = 0


class WirePartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition in slurmrestd's answer."""

    name: str
    nodes: PartitionNodes = PartitionNodes()
    priority: PartitionPriority = PartitionPriority()


class PartitionsReply(Reply, frozen=True, kw_only=True):
    """The answer to GET partitions/."""

    partitions: tuple[WirePartition, ...] = ()


class WireRpc(msgspec.Struct, frozen=True, kw_only=True):
    """The time that slurmctld has worked on one type of message, in microseconds, as in sdiag(1)."""

    message_type: str = ""
    total_time: int = 0

    @property
    def is_read_of_nodes(self) -> bool:
        """True for the messages that slurmrestd sends when it is asked for all nodes."""
        return self.message_type in ("REQUEST_NODE_INFO", "REQUEST_PARTITION_INFO")


class WireStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The part of slurmctld's statistics, as in sdiag(1), about types of messages."""

    rpcs_by_message_type: tuple[WireRpc, ...] = ()


class DiagReply(Reply, frozen=True, kw_only=True):
    """The answer to GET diag/."""

    statistics: WireStatistics = WireStatistics()

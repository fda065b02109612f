"""Slurm nodes and jobs as decisions see them: states as sets of flags with named predicates.

Source of the flags: slurm.conf(5), sinfo(1), squeue(1) and the OpenAPI schema of slurmrestd (`v0.0.42_node_states`,
`v0.0.42_job_state`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NewType

import msgspec

from sunkpy.core import names
from sunkpy.core.model.capacity import Capacity
from sunkpy.core.model.gres import Indices
from sunkpy.core.model.layout import Layout

JobId = NewType("JobId", int)
JobStates = Mapping[JobId, frozenset[str]]
"""The state flags of Slurm jobs, by job ID."""

_BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
_UNUSABLE = frozenset({"DOWN", "FUTURE", "UNKNOWN", "ERROR", "INVALID", "INVALID_REG", "NOT_RESPONDING", "FAIL"})


NOT_RESPONDING = "Not responding"
_SLURM_ITSELF = frozenset({"", NOT_RESPONDING, "Node unexpectedly rebooted"})
"""The reasons that slurmctld writes when it sets a node DOWN by itself. They do not mean that an admin holds the node.
If the node has a reason already, even a blank one, slurmctld adds its own after a colon (set_node_reason).
"""


class NodeComment(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a Slurm node's slurmd pod, which stands as JSON in `Comment` of the Slurm node."""

    node: str
    namespace: str
    pod: str
    uid: str
    nodeset: str = ""

    def encode(self) -> str:
        """Return the comment as JSON with a stable key order."""
        return msgspec.json.encode(self, order="deterministic").decode()


class SlurmNode(msgspec.Struct, frozen=True, kw_only=True):
    """A Slurm node as slurmctld reports it. Memory is in MiB; `address` is where slurmctld reaches the slurmd.

    `reason_by` is the Slurm user who gave the reason, and `reason_since_s` the time (seconds since 1970); empty and 0
    without a reason. `slurmd_since_s` is when the slurmd that registered last started, by the clock of its machine; 0
    if none has registered since slurmctld started. `extra` lists the node's devices: `core.model.devices`.

    `effective_*` is what jobs may use, without what Slurm keeps for the system. `topology` names the node's switches
    and block, `NAME:unit,NAME:unit`; it is empty in 24.11, and for nodes that the topology file names. `cores` are per
    socket, `threads` per core, and no job gets the `special_cores`.
    """

    name: str
    state: frozenset[str] = frozenset()
    reason: str = ""
    reason_by: str = ""
    reason_since_s: int = 0
    comment: str = ""
    address: str = ""
    slurmd_since_s: int = 0
    cpus: int = 0
    alloc_cpus: int = 0
    memory_mib: int = 0
    alloc_memory_mib: int = 0
    effective_cpus: int = 0
    effective_memory_mib: int = 0
    gres: str = ""
    features: frozenset[str] = frozenset()
    extra: str = ""
    topology: str = ""
    sockets: int = 0
    cores: int = 0
    threads: int = 0
    special_cores: int = 0

    @property
    def usable_cpus(self) -> int:
        """The cpus that jobs may use; all cpus of the node until Slurm has said how many."""
        return self.effective_cpus or self.cpus

    @property
    def is_drain(self) -> bool:
        """True if the node has a drain: it starts no new job, whether or not one still runs there."""
        return "DRAIN" in self.state and "UNDRAIN" not in self.state

    @property
    def is_busy(self) -> bool:
        """True if a job runs on the node or its epilog does: by the state flags, or because cpus are allocated."""
        return bool(self.state & _BUSY) or self.alloc_cpus > 0

    @property
    def is_closed(self) -> bool:
        """True if the node takes no new job: it is drained, or somebody other than sunkpy set FAIL or DOWN."""
        return self.is_drain or self.is_held_by_others

    @property
    def is_drained(self) -> bool:
        """True if the node takes no new job, and no job is left on it."""
        return self.is_closed and not self.is_busy

    @property
    def is_down(self) -> bool:
        """True if Slurm or a person has set the node DOWN."""
        return "DOWN" in self.state

    @property
    def is_not_responding(self) -> bool:
        """True if the node's slurmd does not answer slurmctld."""
        return "NOT_RESPONDING" in self.state

    @property
    def is_invalid(self) -> bool:
        """True if the hardware that slurmd reports differs from Slurm's record of the node."""
        return bool(self.state & {"INVALID", "INVALID_REG"})

    @property
    def is_registered(self) -> bool:
        """True if slurmd has registered, and the node is usable except for a drain that it may have."""
        return bool(self.state) and not (self.state & _UNUSABLE)

    @property
    def is_open(self) -> bool:
        """True if Slurm may start a job on the node now, as far as resources are free."""
        return self.is_registered and not self.is_closed

    @property
    def is_drained_by_us(self) -> bool:
        """True if sunkpy drained the node: the drain's reason starts with `k8s: `, and FAIL is not set."""
        return self.is_drain and self._is_reason_ours and "FAIL" not in self.state

    @property
    def is_held_by_others(self) -> bool:
        """True if anybody other than sunkpy set DRAIN or FAIL (an admin, a health check, an Epilog, or Slurm itself),
        or if somebody set DOWN with a reason. Of these, sunkpy lifts only a DRAIN, and only if a health rule names its
        reason.

        False for a node that slurmctld set DOWN because its slurmd was gone: it has no reason, or one of
        `_SLURM_ITSELF`. In Slurm, setting DRAIN clears FAIL and replaces the reason (slurmctld, update_node). sunkpy
        never sets FAIL, so FAIL is from others, whatever the reason says.
        """
        if "FAIL" in self.state:
            return True
        if self._is_reason_ours:
            return False
        return self.is_drain or (self.is_down and self.has_reason_of_others)

    def is_drained_by_others_for(self, reason: str) -> bool:
        """True if somebody other than sunkpy drained the node with exactly this reason, and FAIL is not set."""
        return self.is_drain and self.reason == reason and not self._is_reason_ours and "FAIL" not in self.state

    @property
    def has_reason_of_others(self) -> bool:
        """True if the node has a reason that neither sunkpy wrote, nor slurmctld as it set the node DOWN by itself."""
        parts = {part.strip() for part in self.reason.split(":")}
        return not self._is_reason_ours and not parts <= _SLURM_ITSELF

    @property
    def has_reason_left(self) -> bool:
        """True if the node still has the reason of a drain by sunkpy, but no drain, DOWN or FAIL."""
        return self._is_reason_ours and not self.is_drain and not self.state & {"DOWN", "FAIL"}

    @property
    def _is_reason_ours(self) -> bool:
        return self.reason.startswith(names.REASON_PREFIX)

    @property
    def state_text(self) -> str:
        """The node's state flags as scontrol prints them, the base state first: `IDLE+DRAIN`."""
        base = ("IDLE", "ALLOCATED", "MIXED", "DOWN", "ERROR", "FUTURE", "UNKNOWN", "INVALID")
        first = [flag for flag in base if flag in self.state]
        return "+".join(first + sorted(self.state - set(first)))

    @property
    def owner(self) -> NodeComment | None:
        """The slurmd pod that the node's comment names; None if sunkpy did not write the comment."""
        try:
            return msgspec.convert(json.loads(self.comment), NodeComment)
        except (ValueError, msgspec.ValidationError):
            return None


_JOB_ENDED = frozenset({
    "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
    "OUT_OF_MEMORY", "REVOKED",
})  # fmt: skip


def is_job_pending(state: frozenset[str]) -> bool:
    """True if the job waits in Slurm's queue."""
    return "PENDING" in state


def is_job_running(state: frozenset[str]) -> bool:
    """True if the job has its nodes, and its prolog has run or is running. False while the job is suspended."""
    return "RUNNING" in state and "COMPLETING" not in state


def is_job_completing(state: frozenset[str]) -> bool:
    """True if the job has ended, but its epilog still holds the nodes."""
    return "COMPLETING" in state


def is_job_ended(state: frozenset[str]) -> bool:
    """True if the job will not run again. Its epilog may still hold the nodes."""
    return bool(state & _JOB_ENDED)


def holds_something(state: frozenset[str]) -> bool:
    """True if the job has nodes or may get some: it has not ended, or its epilog still holds nodes."""
    return not is_job_ended(state) or is_job_completing(state)


class SlurmJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as slurmctld reports it. `state_reason` is empty if Slurm gives none.

    `tasks` is the number of tasks that the job asked for; 0 if Slurm does not say. Once the job has nodes, `layout`
    says how many tasks each node has, `devices` which GRES, and `capacity` how many cpus, how much memory and how many
    GRES. `time_limit_min` is None for the partition's limit, and 0 for no limit. The job's owner may write the
    `comment`; only a Slurm operator may write the `admin_comment`. `started_s` and `ended_s` are by the clock of
    slurmctld, and 0 before that. `is_batch`: the job has a script; a job without one is an allocation.
    """

    id: JobId
    name: str = ""
    state: frozenset[str] = frozenset()
    state_reason: str = ""
    comment: str = ""
    admin_comment: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    reservation: str = ""
    constraint: str = ""
    licenses: str = ""
    switches: int = 0
    time_limit_min: int | None = None
    priority: int = 0
    nodes: tuple[str, ...] = ()
    scheduled_nodes: tuple[str, ...] = ()
    node_count: int = 0
    tasks: int = 0
    layout: Layout = ()
    devices: dict[str, Indices] = {}
    capacity: dict[str, Capacity] = {}
    required_nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    exit_code: int = 0
    started_s: int = 0
    ended_s: int = 0
    is_batch: bool = True

    @property
    def is_pending(self) -> bool:
        """True if the job waits in Slurm's queue."""
        return is_job_pending(self.state)

    @property
    def is_running(self) -> bool:
        """True if the job has its nodes, and its prolog has run or is running. False while the job is suspended."""
        return is_job_running(self.state)

    @property
    def is_completing(self) -> bool:
        """True if the job has ended, but its epilog still holds the nodes."""
        return is_job_completing(self.state)

    @property
    def is_ended(self) -> bool:
        """True if the job will not run again."""
        return is_job_ended(self.state)

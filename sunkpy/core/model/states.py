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
"""The state flags of jobs."""

_BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
_UNUSABLE = frozenset({"DOWN", "FUTURE", "UNKNOWN", "ERROR", "INVALID", "INVALID_REG", "NOT_RESPONDING", "FAIL"})


NOT_RESPONDING = "Not responding"
_SLURM_ITSELF = frozenset({NOT_RESPONDING, "Node unexpectedly rebooted"})
"""The exact reasons that slurmctld itself writes when it gives a node up; nobody holds the node then."""


class NodeComment(msgspec.Struct, frozen=True, kw_only=True):
    """The pod of a Slurm node: the JSON in `Comment`."""

    node: str
    namespace: str
    pod: str
    uid: str
    nodeset: str = ""

    def encode(self) -> str:
        """JSON with a stable key order."""
        return msgspec.json.encode(self, order="deterministic").decode()


class SlurmNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node as slurmctld reports it. Memory in MiB; `address` is where slurmctld looks for its slurmd.

    `reason_by`: which Slurm user gave the reason, and `reason_since_s` when; both are empty without one.
    `slurmd_since_s` is when the slurmd started that registered last, by the clock of its machine; 0 when slurmctld has
    heard of none since it started itself. `extra` is what its slurmd says of its devices: `core.model.devices`.
    `effective_*`: what jobs may have of it, without what is kept for the system. `topology`: what its record says of
    switches and block, `NAME:unit,NAME:unit`; empty in 24.11, and for a node that the file names. `cores` are those of
    a socket, `threads` those of a core, `special_cores` those that no job gets.
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
        """The cpus that jobs may have; all cpus while Slurm has not said."""
        return self.effective_cpus or self.cpus

    @property
    def is_drain(self) -> bool:
        """No new job may start (whether or not one still runs)."""
        return "DRAIN" in self.state and "UNDRAIN" not in self.state

    @property
    def is_busy(self) -> bool:
        """A job runs or is being cleaned up; cpus in use count too, whatever the state says."""
        return bool(self.state & _BUSY) or self.alloc_cpus > 0

    @property
    def is_closed(self) -> bool:
        """No new job may start: the node is drained, or somebody set FAIL or DOWN."""
        return self.is_drain or self.is_held_by_others

    @property
    def is_drained(self) -> bool:
        """Closed, and nothing is left on the node."""
        return self.is_closed and not self.is_busy

    @property
    def is_down(self) -> bool:
        """Slurm has given the node up."""
        return "DOWN" in self.state

    @property
    def is_not_responding(self) -> bool:
        """Slurmd does not answer slurmctld."""
        return "NOT_RESPONDING" in self.state

    @property
    def is_invalid(self) -> bool:
        """What slurmd reports of the machine differs from Slurm's record."""
        return bool(self.state & {"INVALID", "INVALID_REG"})

    @property
    def is_registered(self) -> bool:
        """Slurmd has registered and the node can be used or only drains."""
        return bool(self.state) and not (self.state & _UNUSABLE)

    @property
    def is_open(self) -> bool:
        """A job may start here now, as far as there is room."""
        return self.is_registered and not self.is_closed

    @property
    def is_drained_by_us(self) -> bool:
        """The drain carries a reason that sunkpy wrote."""
        return self.is_drain and self._is_reason_ours and "FAIL" not in self.state

    @property
    def is_held_by_others(self) -> bool:
        """DRAIN, FAIL or DOWN was set by an admin, a health check, an Epilog…: never ours to change or to lift.

        Setting DRAIN clears FAIL and replaces the reason of any of the three, lifting it then leaves none
        (slurmctld, update_node). sunkpy sets no FAIL, so that flag is foreign whatever the reason says; a node that
        Slurm gave up by itself is DOWN without a reason, or with one of `_SLURM_ITSELF`.
        """
        if "FAIL" in self.state:
            return True
        if self._is_reason_ours:
            return False
        return self.is_drain or (self.is_down and bool(self.reason) and self.reason not in _SLURM_ITSELF)

    def is_drained_by_others_for(self, reason: str) -> bool:
        """DRAIN with exactly this reason, which is not ours, and without FAIL."""
        return self.is_drain and self.reason == reason and not self._is_reason_ours and "FAIL" not in self.state

    @property
    def _is_reason_ours(self) -> bool:
        return self.reason.startswith(names.REASON_PREFIX)

    @property
    def state_text(self) -> str:
        """Base state first, as scontrol prints it: `IDLE+DRAIN`."""
        base = ("IDLE", "ALLOCATED", "MIXED", "DOWN", "ERROR", "FUTURE", "UNKNOWN", "INVALID")
        first = [flag for flag in base if flag in self.state]
        return "+".join(first + sorted(self.state - set(first)))

    @property
    def owner(self) -> NodeComment | None:
        """The pod of the node, by the comment; None for nodes that are not ours."""
        try:
            return msgspec.convert(json.loads(self.comment), NodeComment)
        except (ValueError, msgspec.ValidationError):
            return None


_JOB_ENDED = frozenset({
    "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
    "OUT_OF_MEMORY", "REVOKED",
})  # fmt: skip


def is_job_pending(state: frozenset[str]) -> bool:
    """Waits in the queue."""
    return "PENDING" in state


def is_job_running(state: frozenset[str]) -> bool:
    """True if the job has its nodes, and its prolog has run or is running."""
    return "RUNNING" in state and "COMPLETING" not in state


def is_job_completing(state: frozenset[str]) -> bool:
    """Ended, but its epilog still holds the nodes."""
    return "COMPLETING" in state


def is_job_ended(state: frozenset[str]) -> bool:
    """Will not run again, although its epilog may still hold the nodes."""
    return bool(state & _JOB_ENDED)


def holds_something(state: frozenset[str]) -> bool:
    """True if the job has nodes or may get some: it has not ended, or its epilog still holds nodes."""
    return not is_job_ended(state) or is_job_completing(state)


class SlurmJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as slurmctld reports it. `state_reason` is empty when Slurm names none.

    `tasks` is what was asked for, 0 when Slurm does not say; `layout` how they lie on the
    nodes, `devices` which GRES it has on each, `capacity` how much of all there is, once it has them. `time_limit_min`:
    None when it is the partition's, 0 when there is none. Its owner may write the `comment`, nobody below an operator
    the `admin_comment`. `started_s` and `ended_s` are by the clock of slurmctld, 0 while it has not.
    `is_batch`: it has a script; one without is an allocation.
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
        """Waits in the queue."""
        return is_job_pending(self.state)

    @property
    def is_running(self) -> bool:
        """Holds its nodes and has not ended."""
        return is_job_running(self.state)

    @property
    def is_completing(self) -> bool:
        """Ended, but its epilog still holds the nodes."""
        return is_job_completing(self.state)

    @property
    def is_ended(self) -> bool:
        """Will not run again."""
        return is_job_ended(self.state)

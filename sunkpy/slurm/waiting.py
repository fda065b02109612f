"""Reads from slurmrestd's answer what a pending job requests of nodes.

`tres_req_str` gives the request for all nodes together. It has devices only if accounting counts them, so devices are
read from the job's own options. `shared` is always empty from v0.0.45 on.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Final

import msgspec

from sunkpy.core.growth.excluded import share
from sunkpy.core.growth.waiting import WaitingJob, larger
from sunkpy.core.model.gres import gres_counts
from sunkpy.core.model.states import is_job_completing, is_job_pending
from sunkpy.slurm.wire import Number, flags

_TASKS: Final = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_LICENSE: Final = re.compile(r"(?:^|[,;|])([^,;|:=]+)")
_MIB: Final = {"": 1, "M": 1, "G": 2**10, "T": 2**20, "P": 2**30}
_LONGEST: Final = 40


class WireWaiting(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a job in slurmrestd's answer that says what the job requests of nodes."""

    job_id: int
    job_state: tuple[str, ...] = ()
    state_reason: str = ""
    partition: str = ""
    user_name: str = ""
    account: str = ""
    qos: str = ""
    priority: Number = Number()
    array_job_id: Number = Number()
    array_max_tasks: Number = Number()
    array_task_string: str = ""
    het_job_id: Number = Number()
    node_count: Number = Number()
    max_nodes: Number = Number()
    cpus: Number = Number()
    tasks: Number = Number()
    cpus_per_task: Number = Number()
    minimum_cpus_per_node: Number = Number()
    tres_req_str: str = ""
    tres_per_job: str = ""
    tres_per_node: str = ""
    tres_per_task: str = ""
    features: str = ""
    resv_name: str = ""
    licenses: str | None = ""
    required_nodes: str = ""
    excluded_nodes: str = ""
    shared: tuple[str, ...] | None = ()

    @property
    def reason(self) -> str:
        """Slurm's reason why the job is pending; empty if Slurm gives none."""
        return "" if self.state_reason == "None" else self.state_reason

    def waits(self, started: int) -> WaitingJob | None:
        """Return what a pending job requests of nodes; None if the job is not pending, or still completes an earlier
        run on its nodes. `started`: how many tasks of the job's array have started.
        """
        state = flags(self.job_state)
        if not is_job_pending(state) or is_job_completing(state):
            return None
        asked = tres_amounts(self.tres_req_str)
        at_once = self.array_max_tasks.value or sys.maxsize
        devices = _devices(self.tres_per_job)
        counted = int(asked["gres/gpu"]) if asked.get("gres/gpu", "").isdecimal() else 0
        on_each, of_task = _devices(self.tres_per_node), _devices(self.tres_per_task)
        if counted and not (devices or on_each or of_task):
            devices = {"gpu": counted}
        cpus = int(asked["cpu"]) if asked.get("cpu", "").isdecimal() else self.cpus.value
        total = {"cpu": cpus * 1000, "memory": mib(asked.get("mem", "")) * 2**20, **devices}
        return WaitingJob(
            id=self.job_id,
            label=self._label,
            partitions=tuple(self.partition.split(",")),
            priority=self.priority.value,
            reason=self.reason,
            nodes=int(asked["node"]) if asked.get("node", "").isdecimal() else self.node_count.value or 1,
            max_nodes=self.max_nodes.value,
            tasks=self.tasks.value or 1,
            total=_positive(total),
            per_node=_positive(larger({"cpu": self.minimum_cpus_per_node.value * 1000}, on_each)),
            per_task=_positive({"cpu": self.cpus_per_task.value * 1000, **of_task}),
            copies=max(0, min(count_tasks(self.array_task_string), at_once - started)),
            whole_nodes="none" in (self.shared or ()),
            constraint=self.features,
            reservation=self.resv_name,
            licenses=tuple(sorted(set(_LICENSE.findall(self.licenses or "")))),
            names_nodes=bool(self.required_nodes),
            excluded=share(self.excluded_nodes),
            het_job=self.het_job_id.value,
            user=self.user_name,
            account=self.account,
            qos=self.qos,
        )

    @property
    def _label(self) -> str:
        if self.het_job_id.value:
            return f"{self.het_job_id.value}+"
        if not self.array_task_string:
            return str(self.job_id)
        tasks = self.array_task_string
        return (
            f"{self.array_job_id.value or self.job_id}_[{tasks if len(tasks) <= _LONGEST else tasks[:_LONGEST] + '…'}]"
        )


def tres_amounts(text: str) -> Mapping[str, str]:
    """Return name → amount for a TRES text such as `cpu=2,mem=4G,gres/gpu=1`."""
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def mib(text: str) -> int:
    """Return the MiB of Slurm's memory text, such as `4000M` or `1.50T`; 0 if it cannot be read."""
    number, unit = text.rstrip("MGTP"), text[-1:] if text[-1:] in _MIB else ""
    try:
        return round(float(number) * _MIB[unit])
    except ValueError:
        return 0


def count_tasks(text: str) -> int:
    """Return the number of tasks in an array text such as `1-3,7`, `0-9:3` or `2-7%1`; 1 if the job is no array. The
    number is too small if Slurm has shortened a long text.
    """
    listed = _TASKS.findall(text.partition("%")[0])
    return sum(len(range(int(first), int(last or first) + 1, int(step or 1))) for first, last, step in listed) or 1


def _devices(text: str) -> dict[str, int]:
    """Return the counts of GRES by name and by `name:type` in a text such as `gres/gpu:h100:2`, `gres/gpu=2` or
    `gpu:2,cpu=4`, without CPUs and memory.
    """
    parts = (
        part.replace("=", ":") for part in text.split(",") if not part.startswith(("cpu", "mem", "node", "billing"))
    )
    return gres_counts(",".join(parts))


def _positive(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}

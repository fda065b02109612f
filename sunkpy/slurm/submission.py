"""A job to submit, and its form on the wire (`v0.0.42_job_desc_msg`): as a batch job, or as an allocation."""

from __future__ import annotations

import msgspec


class JobSubmission(msgspec.Struct, frozen=True, kw_only=True):
    """What to ask of `POST job/submit` or `job/allocate`. Memory in MiB; 0 and empty mean Slurm's default.

    `time_limit_minutes`: None is the partition's default, 0 is unlimited. `shared` is who else may use the nodes:
    `none`, `user`, `mcs`, `topo` (man sbatch, --exclusive). `dependency` as sbatch reads it. `tasks` may share nodes:
    at least `minimum_nodes`, at most `maximum_nodes`. `switches`: on at most so many leaf switches, unless that takes
    longer than `switches_wait_s`.
    `tres_per_node` and `tres_per_task` are Slurm's text, such as `gres/gpu:h100:2`. The job is never requeued: a
    workload comes back as new pods of its own controller.
    """

    name: str
    script: str
    comment: str
    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    constraints: str = ""
    licenses: str = ""
    dependency: str = ""
    wckey: str = ""
    switches: int = 0
    switches_wait_s: int | None = None
    minimum_nodes: int = 1
    maximum_nodes: int = 1
    tasks: int = 1
    cpus_per_task: int = 1
    memory_mib_per_node: int = 0
    memory_mib_per_cpu: int = 0
    tres_per_node: str = ""
    tres_per_task: str = ""
    time_limit_minutes: int | None = None
    shared: str = ""
    excluded_nodes: tuple[str, ...] = ()
    required_nodes: tuple[str, ...] = ()
    hold: bool = False

    def to_batch(self, *, seal: str = "") -> dict[str, object]:
        """Body of `job/submit`. The seal goes in `extra`, where slurmctld's script takes it away."""
        streams = {f"standard_{name}": "/dev/null" for name in ("input", "output", "error")}
        return {"job": {**self._asked(seal), **streams, "script": self.script}}

    def to_allocation(self, *, seal: str = "") -> dict[str, object]:
        """Body of `job/allocate`: now or not at all."""
        return {"job": {**self._asked(seal), "immediate": True}}

    def _asked(self, seal: str) -> dict[str, object]:
        """Only what was asked for is named, so that the cluster's defaults hold."""
        job: dict[str, object] = {
            "name": self.name,
            "comment": self.comment,
            "environment": ["PATH=/usr/local/bin:/usr/bin:/bin"],
            "current_working_directory": "/tmp",
            "requeue": False,
            "minimum_nodes": self.minimum_nodes,
            "tasks": self.tasks,
            "cpus_per_task": self.cpus_per_task,
        }
        optional = {
            "partition": self.partition,
            "account": self.account,
            "qos": self.qos,
            "reservation": self.reservation,
            "constraints": self.constraints,
            "licenses": self.licenses,
            "dependency": self.dependency,
            "wckey": self.wckey,
            "required_switches": _number(self.switches),
            "wait_for_switch": self.switches_wait_s,
            "maximum_nodes": self.maximum_nodes,
            "tres_per_node": self.tres_per_node,
            "tres_per_task": self.tres_per_task,
            "excluded_nodes": list(self.excluded_nodes),
            "required_nodes": list(self.required_nodes),
            "memory_per_node": _number(self.memory_mib_per_node),
            "memory_per_cpu": _number(self.memory_mib_per_cpu),
            "time_limit": _time_limit(self.time_limit_minutes),
            "shared": [self.shared] if self.shared else [],
            "hold": self.hold,
            "extra": seal,
        }
        return job | {key: value for key, value in optional.items() if value}


class JobUpdate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to change of a job that waits (`POST job/{id}`), in the words of the wire; None is left as it is.

    An empty text takes away what is there, where Slurm allows it.
    """

    name: str | None = None
    comment: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    constraints: str | None = None
    licenses: str | None = None
    dependency: str | None = None
    required_switches: int | None = None
    wait_for_switch: int | None = None
    time_limit_minutes: int | None = None

    def to_wire(self) -> dict[str, object]:
        """Body of the request."""
        body: dict[str, object] = msgspec.to_builtins(self)
        if body.pop("time_limit_minutes", None) is not None:
            body["time_limit"] = _time_limit(self.time_limit_minutes)
        if self.required_switches is not None:
            body["required_switches"] = _number(self.required_switches)
        return body


def _number(value: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": value} if value else {}


def _time_limit(minutes: int | None) -> dict[str, object]:
    if minutes is None:
        return {}
    return {"set": True, "infinite": minutes == 0, "number": minutes}

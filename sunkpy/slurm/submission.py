"""Makes the request bodies (`v0.0.42_job_desc_msg`) that submit, allocate or change a job.

Slurm never requeues these jobs: if a workload is to run again, its controller makes new pods.
"""

from __future__ import annotations

from collections.abc import Iterable

from sunkpy.core.model.job_spec import JobSpec, Switches


def batch_body(spec: JobSpec, *, seal: str = "") -> dict[str, object]:
    """Return the body of POST job/submit. `seal`: a proof that the sender has the cluster's key; it is sent in the
    field `extra`, from which slurmctld's job_submit.lua removes it.
    """
    streams = {f"standard_{name}": "/dev/null" for name in ("input", "output", "error")}
    return {"job": {**_asked(spec, seal), **streams, "script": spec.script}}


def allocation_body(spec: JobSpec, *, seal: str = "") -> dict[str, object]:
    """Return the body of POST job/allocate, for an allocation at once or not at all."""
    return {"job": {**_asked(spec, seal), "immediate": True}}


def change_body(spec: JobSpec, fields: Iterable[str]) -> dict[str, object]:
    """Return the body of POST job/{id}, which changes these fields. An empty text clears a field, if Slurm
    allows it.
    """
    body: dict[str, object] = {}
    for field in fields:
        if field == "switches":
            body |= _switches(spec.switches)
        elif field == "time_limit_min":
            body["time_limit"] = _time_limit(spec.time_limit_min)
        else:
            body["constraints" if field == "constraint" else field] = getattr(spec, field)
    return body


def _asked(spec: JobSpec, seal: str) -> dict[str, object]:
    """Return the fields of a job. Only what is requested is named, so that the cluster's defaults apply."""
    job: dict[str, object] = {
        "name": spec.name,
        "comment": spec.comment,
        "environment": ["PATH=/usr/local/bin:/usr/bin:/bin"],
        "current_working_directory": "/tmp",
        "requeue": False,
        "minimum_nodes": spec.minimum_nodes,
        "tasks": spec.tasks,
        "cpus_per_task": spec.cpus_per_task,
    }
    optional = {
        "partition": spec.partition,
        "account": spec.account,
        "qos": spec.qos,
        "reservation": spec.reservation,
        "constraints": spec.constraint,
        "licenses": spec.licenses,
        "dependency": spec.dependency,
        "wckey": spec.wckey,
        **_switches(spec.switches),
        "segment_size": _number(spec.segment or 0),
        "maximum_nodes": spec.maximum_nodes,
        "tres_per_node": spec.gres_per_node,
        "tres_per_task": spec.gres_per_task,
        "excluded_nodes": list(spec.excluded_nodes),
        "required_nodes": list(spec.required_nodes),
        "memory_per_node": _number(spec.memory_mib_per_node),
        "memory_per_cpu": _number(spec.memory_mib_per_cpu),
        "time_limit": _time_limit(spec.time_limit_min),
        "shared": ["none"] if spec.whole_nodes else [spec.shared] if spec.shared else [],
        "hold": spec.hold,
        "extra": seal,
    }
    return job | {key: value for key, value in optional.items() if value}


def _switches(switches: Switches | None) -> dict[str, object]:
    if switches is None:
        return {}
    wait = {} if switches.wait_s is None else {"wait_for_switch": switches.wait_s}
    return {"required_switches": _number(switches.count), **wait}


def _number(value: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": value} if value else {}


def _time_limit(minutes: int | None) -> dict[str, object]:
    if minutes is None:
        return {}
    return {"set": True, "infinite": minutes == 0, "number": minutes}

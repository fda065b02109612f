"""Placeholder jobs for tests."""

from __future__ import annotations

import msgspec

from sunkpy.core.gang.job.job import Job
from sunkpy.core.model.states import SlurmJob

BY_SLURM = {
    "reason": "state_reason",
    "excluded": "excluded_nodes",
    "required": "required_nodes",
    **{name: name for name in ("state", "nodes", "tasks", "layout", "devices", "capacity", "user", "partition")},
}
"""How tests name what Slurm says of a job."""


def make_job(*state: str, id: int = 7, **fields) -> Job:
    """A job in this state; the fields are those that tests name, whichever part of the job holds them."""
    return change_job(Job(slurm=SlurmJob(id=id)), state=frozenset(state), **fields)


def change_job(job: Job, **fields) -> Job:
    """The job with other fields, named as in `make_job`; `told_s_ago`: at the time 0."""
    by_slurm = {BY_SLURM[name]: fields.pop(name) for name in tuple(fields) if name in BY_SLURM}
    if "is_allocation" in fields:
        by_slurm["is_batch"] = not fields.pop("is_allocation")
    if (told_s_ago := fields.pop("told_s_ago", None)) is not None:
        fields["signalled_at"] = fields["signal_answered_at"] = -told_s_ago
    if fields.pop("is_cancelled", False):
        fields["cancelled_at"] = 0.0
    for hook in {"prologs", "epilogs"} & fields.keys():
        fields[hook] = dict.fromkeys(fields[hook], 0.0)
    return msgspec.structs.replace(job, slurm=msgspec.structs.replace(job.slurm, **by_slurm), **fields)

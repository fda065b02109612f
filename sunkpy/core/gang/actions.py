"""What the scheduler can do about a gang: the output of `decide`, executed by one `match` in the shell."""

from __future__ import annotations

import msgspec

from sunkpy.core.gang.request import JobRequest
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId


class Submit(msgspec.Struct, frozen=True, kw_only=True):
    """Hand a job to Slurm, for these pods."""

    request: JobRequest
    pods: tuple[Pod, ...]


class UpdateExcluded(msgspec.Struct, frozen=True, kw_only=True):
    """Tell a pending job which nodes the pods may not use now."""

    job: JobId
    excluded: tuple[str, ...]


class Bind(msgspec.Struct, frozen=True, kw_only=True):
    """Put a pod on the node that Slurm gave to its job, if the kubelet would admit it there."""

    pod: Pod
    job: JobId
    slurm_node: str


class Cover(msgspec.Struct, frozen=True, kw_only=True):
    """Note on a pod that is bound already which job holds its node from now on."""

    pod: Pod
    job: JobId


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """End a job with the exit code of its pods: 0 when all succeeded, else 1."""

    job: JobId
    exit_code: int


class Cancel(msgspec.Struct, frozen=True, kw_only=True):
    """Cancel a job."""

    job: JobId
    why: str


class Evict(msgspec.Struct, frozen=True, kw_only=True):
    """Tell a pod to go because its job has lost the node, or was lost itself and the node is `displaced_by`'s now."""

    pod: Pod
    job: JobId | None
    displaced_by: JobId | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Say on the pod why it is not scheduled yet. `is_problem`: somebody has to change something."""

    pod: Pod
    message: str
    is_problem: bool


class Warn(msgspec.Struct, frozen=True, kw_only=True):
    """Tell a person something about a pod, once."""

    pod: Pod
    reason: str
    note: str


GangAction = Submit | UpdateExcluded | Bind | Cover | Finish | Cancel | Evict | Report | Warn

"""What the scheduler writes on a pod with its binding, and the next leader believes: gang, job, node, seat and devices.

Labels, annotations and owners of a pod may change at any time. An admission policy of the chart keeps this note as the
scheduler wrote it (`scheduler.protectJobNotes`). Without that policy anybody who may edit the pod can forge it. How
much it counts against other evidence: `sunkpy.core.gang.evidence`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.gang import solo_pod
from sunkpy.core.gang.identity import GangId, parse_comment
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId

_DIGITS: Final = 10
"""Anybody who may edit a pod can write more, and Python reads no more than some thousands."""

_NO_JOB: Final = 2**31
"""Slurm counts to 2**26. Above this, slurmrestd takes some numbers for no number at all (slurm.h, NO_VAL)."""


class BindingNote(msgspec.Struct, frozen=True, kw_only=True):
    """The note on one bound pod.

    `seat` is `<role>/<index>` of a member of a gang of several. `devices` are the GPUs of the node that the job holds
    for the pod, as `0,1`; `claimed` the devices of its claims, as `node-1/gpu-0`.
    """

    job: JobId
    gang: GangId
    slurm_node: str = ""
    seat: str = ""
    devices: str = ""
    claimed: str = ""

    @property
    def annotations(self) -> dict[str, str]:
        """The note as it stands on the pod."""
        texts = {
            names.ANNOTATION_JOB_ID: str(self.job),
            names.ANNOTATION_GANG_ID: self.gang.comment(),
            names.ANNOTATION_PLACED_ON: self.slurm_node,
            names.ANNOTATION_PLACE: self.seat,
            names.ANNOTATION_GPU_INDICES: self.devices,
            names.ANNOTATION_DEVICES: self.claimed,
        }
        return {name: text for name, text in texts.items() if text}


def noted_gang(pod: Pod) -> GangId | None:
    """The gang that is noted on a pod, whoever wrote it; a pod that waits has no more than its job."""
    return parse_comment(pod.annotations.get(names.ANNOTATION_GANG_ID, ""))


def noted_job(pod: Pod) -> JobId | None:
    """The job that is noted on a pod, whoever wrote it."""
    text = pod.annotations.get(names.ANNOTATION_JOB_ID, "")
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return JobId(int(text)) if is_number and int(text) < _NO_JOB else None


def names_pod(id: GangId, pod: Pod) -> bool:
    """The gang is this pod alone: of no other pod does its job say so."""
    return pod.uid == solo_pod(id) or id == GangId(namespace=id.namespace, name=pod.name, uid=pod.uid)

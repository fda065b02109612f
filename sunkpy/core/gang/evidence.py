"""The evidence that a pod belongs to a gang, from weak to strong.

A running scheduler finds the gang of a pod once, and later changes of the pod's labels do not move the pod. A new
leader has to find out under which gang's job an earlier leader bound each pod. Labels, annotations and owners of the
pod may have changed since, or be unreadable. The binding note (annotations that the scheduler writes with the binding)
can be forged where no admission policy protects it. The comment of a job proves to which gang the job belongs, but not
which pods run under it. So a new leader moves a pod to another gang only if the evidence for that gang is at least as
strong as the evidence for the pod's present gang.

A note alone is weaker than a job on the pod's node. If the note were stronger, whoever may edit the pod could move it
away from that job's gang by a forged note. The job's Epilog would then end while the pod still runs. A job for one pod
alone is the strongest evidence: no note takes the pod away from such a job.
"""

from __future__ import annotations

import enum

from sunkpy.core.gang.gang import solo_pod
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Pod


class Evidence(enum.IntEnum):
    """A reason to believe that a pod belongs to a gang. A higher number is stronger evidence, and `words` is the reason
    for people to read.
    """

    words: str

    def __new__(cls, rank: int, words: str) -> Evidence:
        """Make an enum member: `rank` is its number, and `words` is the reason for people to read."""
        row = int.__new__(cls, rank)
        row._value_, row.words = rank, words
        return row

    WORD = (1, "the pod's labels, annotations and owners say so")
    NOTE = (2, "the pod's binding note says so, and Slurm has forgotten the job that the note names")
    JOB_THERE = (3, "the pod is in this gang so far, and a job of the gang has the pod's node")
    JOB_AND_NOTE = (4, "the pod's binding note says so, and the job that the note names says so and has the pod's node")
    OWN_JOB = (5, "a job stands for this pod alone, and the pod or its note says the same")


def names_pod(id: GangId, pod: Pod) -> bool:
    """True if the gang is this pod alone. A job of such a gang can stand for no other pod."""
    return pod.uid == solo_pod(id) or id == GangId(namespace=id.namespace, name=pod.name, uid=pod.uid)


def for_present(id: GangId | None, pod: Pod, *, has_job_there: bool) -> Evidence:
    """Return how strong the evidence is that a pod belongs to `id`, its gang so far (None: it has no gang yet).
    `has_job_there`: True if a job of this gang has the pod's node.
    """
    if id is None or not has_job_there:
        return Evidence.WORD
    return Evidence.OWN_JOB if names_pod(id, pod) else Evidence.JOB_THERE


def for_forgotten(noted: GangId, present: GangId | None, pod: Pod) -> Evidence:
    """Return how strong the evidence of a pod's binding note is, if Slurm has forgotten the job that the note names.
    `noted`: the gang in the note (annotations from the binding); `present`: the pod's gang so far, None if it has none
    yet.

    The note is strong (`JOB_AND_NOTE`) if it says that the pod is a gang of its own, taken out of a gang of the same
    owner as `present`. This is safe, because Epilogs of the present gang's jobs also check for such pods. In all other
    cases the note is weak (`NOTE`).
    """
    is_beside = present is not None and noted.uid == present.uid and solo_pod(noted) == pod.uid
    return Evidence.JOB_AND_NOTE if is_beside else Evidence.NOTE


def moves(offered: Evidence, present: Evidence) -> bool:
    """True if a pod moves to another gang: `offered`, the evidence for that gang, is at least as strong as `present`,
    the evidence for the gang that the pod belongs to now.
    """
    return offered >= present

"""The evidence that a pod belongs to a gang, from weak to strong.

A running scheduler knows to which gang each pod belongs since it first saw the pod, and does not change that. A new
leader has to find out under which gang's job an earlier leader bound each pod. Labels, annotations and owners may have
changed since, or be unreadable. A binding note can be forged where no admission policy protects it. The comment of a
job proves to which gang the job belongs, but not which pods run under it. So a pod moves to another gang only if the
evidence for that gang is at least as strong as the evidence for its present gang.

A note alone is weaker than a job on the pod's node: with a forged note, whoever may edit the pod could take it from
that job, whose epilog would then end while the pod still runs. A job for one pod alone is the strongest evidence: no
note takes the pod away from it.
"""

from __future__ import annotations

import enum

from sunkpy.core.gang.gang import solo_pod
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Pod


class Evidence(enum.IntEnum):
    """A reason to believe that a pod belongs to a gang. A higher number is stronger evidence."""

    words: str

    def __new__(cls, rank: int, words: str) -> Evidence:
        """Make a member from its rank and its words for people."""
        row = int.__new__(cls, rank)
        row._value_, row.words = rank, words
        return row

    WORD = (1, "its labels, annotations and owners say so")
    NOTE = (2, "its binding note says so, and Slurm has forgotten the job that is noted")
    JOB_THERE = (3, "it is of this gang so far, and a job of the gang has its node")
    JOB_AND_NOTE = (4, "its binding note says so, as does the job that is noted and has its node")
    OWN_JOB = (5, "a job stands for this pod alone, and the pod or its note says the same")


def names_pod(id: GangId, pod: Pod) -> bool:
    """True if the gang is this pod alone. A job of such a gang cannot stand for another pod."""
    return pod.uid == solo_pod(id) or id == GangId(namespace=id.namespace, name=pod.name, uid=pod.uid)


def for_present(id: GangId | None, pod: Pod, *, has_job_there: bool) -> Evidence:
    """Return the evidence for the gang to which a pod belongs so far. `has_job_there`: a job of this gang has the pod's
    node.
    """
    if id is None or not has_job_there:
        return Evidence.WORD
    return Evidence.OWN_JOB if names_pod(id, pod) else Evidence.JOB_THERE


def for_forgotten(noted: GangId, present: GangId | None, pod: Pod) -> Evidence:
    """Return the evidence of a binding note that names a job which Slurm has forgotten.

    The note is strong if the pod became a solo gang of its present gang's owner: the epilogs of the present gang's jobs
    still watch such a pod.
    """
    is_beside = present is not None and noted.uid == present.uid and solo_pod(noted) == pod.uid
    return Evidence.JOB_AND_NOTE if is_beside else Evidence.NOTE


def moves(offered: Evidence, present: Evidence) -> bool:
    """True if a pod moves from its gang, with the evidence `present`, to the gang with the evidence `offered`."""
    return offered >= present

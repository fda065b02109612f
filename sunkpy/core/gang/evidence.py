"""The evidence that a pod belongs to a gang, in the order of its strength.

A running scheduler goes by what the pod said when it was first seen, and nothing moves it: it knows the jobs that it
has submitted. A new leader has to find out under which gang's job each pod runs that an earlier leader bound. Labels,
annotations and owners may have changed since, or be unreadable; a binding note can be forged where no policy protects
it; the comment of a job proves whose the job is, and not which pods run under it. So they are weighed, and only
evidence that is at least as strong as what speaks for the present gang moves a pod.

A note alone counts for less than a job on the node: whoever may edit the pod could take it from under that job, whose
epilog would end while it still runs. A job for one pod alone counts for most: no note takes that pod away from it.
"""

from __future__ import annotations

import enum

from sunkpy.core.gang.gang import solo_pod
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Pod


class Evidence(enum.IntEnum):
    """Why a pod is thought to belong to a gang. A higher number is stronger evidence."""

    words: str

    def __new__(cls, rank: int, words: str) -> Evidence:
        """A row of the table: its rank, and what it is in words."""
        row = int.__new__(cls, rank)
        row._value_, row.words = rank, words
        return row

    WORD = (1, "its labels, annotations and owners say so")
    NOTE = (2, "its binding note says so, and Slurm has forgotten the job that is noted")
    JOB_THERE = (3, "it is of this gang so far, and a job of the gang has its node")
    JOB_AND_NOTE = (4, "its binding note says so, as does the job that is noted and has its node")
    OWN_JOB = (5, "a job stands for this pod alone, and the pod or its note says the same")


def names_pod(id: GangId, pod: Pod) -> bool:
    """True if the gang is this pod alone: no job says that of another pod."""
    return pod.uid == solo_pod(id) or id == GangId(namespace=id.namespace, name=pod.name, uid=pod.uid)


def for_present(id: GangId | None, pod: Pod, *, has_job_there: bool) -> Evidence:
    """The evidence for the gang to which a pod belongs so far. `has_job_there`: a job of this gang has the node of the
    pod.
    """
    if id is None or not has_job_there:
        return Evidence.WORD
    return Evidence.OWN_JOB if names_pod(id, pod) else Evidence.JOB_THERE


def for_forgotten(noted: GangId, present: GangId | None, pod: Pod) -> Evidence:
    """The evidence of a note on a pod that names a job which Slurm has forgotten.

    A pod that became a solo gang has left the job of the present gang, and its epilogs go on watching
    it.
    """
    is_beside = present is not None and noted.uid == present.uid and solo_pod(noted) == pod.uid
    return Evidence.JOB_AND_NOTE if is_beside else Evidence.NOTE


def moves(offered: Evidence, present: Evidence) -> bool:
    """True if a pod leaves the gang for which `present` speaks, and goes to the one for which `offered` speaks."""
    return offered >= present

"""Reads a gang's Slurm job from its pods' conditions and annotations, for people who have no access to Slurm."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.identity import noted_job
from sunkpy.core.gang.job.ends import END_CONDITIONS, flag_of
from sunkpy.core.gang.job.job import Job
from sunkpy.core.gang.phases import is_over
from sunkpy.core.model.objects import Condition, Pod
from sunkpy.core.model.states import JobId, SlurmJob

_SCHEDULED: Final = "PodScheduled"
_QUEUED: Final = re.compile(r"Slurm job ([0-9]{1,10}) waits: (\w+)(?: in partition (\S+))?")
_NOT_TAKEN: Final = re.compile(r"submit job |Slurm job \d+ ended before its pod was bound")


class JobOnPods(msgspec.Struct, frozen=True, kw_only=True):
    """What the pods of a gang show of their Slurm job. `job`: None if they show none. `is_bound`: the pods have nodes.
    `refused`: the scheduler's message if Slurm did not take the job, or if the job ended before its pod was bound;
    otherwise empty.
    """

    job: Job | None = None
    is_bound: bool = False
    refused: str = ""


def read_job(pods: Sequence[Pod], *, placed: Iterable[str]) -> JobOnPods:
    """Return what the pods of a gang show of their Slurm job. `placed`: the Slurm nodes on which the pods are.

    For a queued job this includes Slurm's last reason for waiting. A job whose pods are bound is taken to run, unless
    the pods were evicted. For any other job only the ID is known.
    """
    living = [pod for pod in pods if not is_over(pod)]
    bound = [(pod, job) for pod in living if pod.spec.node_name and (job := noted_job(pod))]
    if bound:
        evicted = next(filter(None, (_end(pod) for pod, _ in bound)), None)
        flag = flag_of(evicted.reason) if evicted is not None else "RUNNING"
        state = frozenset({flag} - {""})
        nodes = tuple(dict.fromkeys(filter(None, placed)))
        return JobOnPods(job=Job(slurm=SlurmJob(id=bound[0][1], state=state, nodes=nodes)), is_bound=True)
    said = last_message(living)
    if queued := _QUEUED.match(said):
        return JobOnPods(job=_waits(JobId(int(queued[1])), queued[2], queued[3] or ""))
    if _NOT_TAKEN.match(said):
        return JobOnPods(refused=said)
    job = next(filter(None, map(noted_job, living)), None)
    return JobOnPods(job=Job(slurm=SlurmJob(id=job)) if job is not None else None)


def _waits(job: JobId, reason: str, partition: str) -> Job:
    return Job(slurm=SlurmJob(id=job, state=frozenset({"PENDING"}), state_reason=reason, partition=partition))


def last_message(pods: Iterable[Pod]) -> str:
    """Return the scheduler's message about what these pods wait for: from condition PodScheduled of the first pod that
    has such a message; empty if none has.
    """
    conditions = filter(None, (_condition(pod, _SCHEDULED, status="False") for pod in pods))
    return next((each.message for each in conditions if each.message), "")


def eviction_message(pod: Pod) -> str:
    """Return why the pod was evicted, as its condition says; empty if it was not evicted."""
    evicted = _end(pod)
    return evicted.message if evicted is not None else ""


def _end(pod: Pod) -> Condition | None:
    return next(filter(None, (_condition(pod, type_) for type_ in END_CONDITIONS)), None)


def _condition(pod: Pod, type_: str, *, status: str = "True") -> Condition | None:
    found = pod.condition(type_)
    return found if found is not None and found.status == status else None

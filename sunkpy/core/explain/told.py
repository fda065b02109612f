"""What the scheduler has noted on pods, read back: for who cannot ask Slurm itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.ends import flag_of
from sunkpy.core.gang.view import JobView, is_over
from sunkpy.core.model.objects import Condition, Pod
from sunkpy.core.model.states import JobId

_SCHEDULED: Final = "PodScheduled"
_DISRUPTED: Final = "DisruptionTarget"
_QUEUED: Final = re.compile(r"Slurm job ([0-9]{1,10}) waits: (\w+)")
_DIGITS: Final = 10
"""Anybody who may edit the pod can write more, and Python reads no more than some thousands."""

_NOT_TAKEN: Final = re.compile(r"submit job |Slurm job \d+ ended before its pod was bound")


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The job of a gang as its pods tell of it; `refused`: why there is none, in Slurm's words."""

    job: JobView | None = None
    is_bound: bool = False
    refused: str = ""


def told_by(pods: Sequence[Pod], *, placed: Iterable[str]) -> Told:
    """What is known of the job from the pods alone; `placed`: the Slurm nodes that they are on.

    Of a job in the queue Slurm's last reason; of one that has nodes that it has them still, unless the pods were told
    to go. Of any other only its id: nothing follows from that.
    """
    living = [pod for pod in pods if not is_over(pod)]
    bound = [(pod, job) for pod in living if pod.spec.node_name and (job := noted_job(pod))]
    if bound:
        evicted = next(filter(None, (_condition(pod, _DISRUPTED) for pod, _ in bound)), None)
        flag = flag_of(evicted.reason) if evicted is not None else "RUNNING"
        state = frozenset({flag} - {""})
        nodes = tuple(dict.fromkeys(filter(None, placed)))
        return Told(job=JobView(id=bound[0][1], state=state, nodes=nodes), is_bound=True)
    said = said_of(living)
    if queued := _QUEUED.match(said):
        return Told(job=JobView(id=JobId(int(queued[1])), state=frozenset({"PENDING"}), reason=queued[2]))
    if _NOT_TAKEN.match(said):
        return Told(refused=said)
    job = next(filter(None, map(noted_job, living)), None)
    return Told(job=JobView(id=job) if job is not None else None)


def said_of(pods: Iterable[Pod]) -> str:
    """What the scheduler last said that the pods wait for."""
    conditions = filter(None, (_condition(pod, _SCHEDULED, status="False") for pod in pods))
    return next((each.message for each in conditions if each.message), "")


def evicted_because(pod: Pod) -> str:
    """What the pod was told when its job had lost the node."""
    evicted = _condition(pod, _DISRUPTED)
    return evicted.message if evicted is not None else ""


def _condition(pod: Pod, type_: str, *, status: str = "True") -> Condition | None:
    found = pod.condition(type_)
    return found if found is not None and found.status == status else None


def noted_job(pod: Pod) -> JobId | None:
    """The job that is noted on a pod."""
    text = pod.annotations.get(names.ANNOTATION_JOB_ID, "")
    return JobId(int(text)) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None

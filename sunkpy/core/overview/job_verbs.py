"""What `kubectl sunk jobs` may do with jobs of people and with jobs of pods.

A job of pods is never requeued here. When it ends, its pods leave their nodes, and pods that still wait get another
job. So some verbs are refused for jobs of pods, with a text that says what to do to the pods instead.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.identity import noted_job, parse_comment
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import is_job_pending
from sunkpy.core.overview.queue import QueuedJob
from sunkpy.core.overview.table import Table, first_of

_NUMBER: Final = re.compile(r"(?P<job>[0-9]{1,9})(?:_(?:[0-9]+|\[[0-9,%:-]+\])|\+[0-9]+)?")
_SHOWN: Final = 4


class JobVerb(enum.StrEnum):
    """An action of `kubectl sunk jobs` on jobs: hold, release, requeue or cancel."""

    HOLD = "hold"
    RELEASE = "release"
    REQUEUE = "requeue"
    CANCEL = "cancel"


class JobStep(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `kubectl sunk jobs` does with one job. `job`: its number as the person wrote it.

    `pods`: the pods that the job stands for; `follows`: what happens to them. `why_not`: why the job is left alone.
    """

    job: str
    name: str = ""
    user: str = ""
    pods: tuple[str, ...] = ()
    follows: str = ""
    why_not: str = ""


class JobsDone(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `kubectl sunk jobs` did with jobs, or would do (`is_done` False). `said`: the output of Slurm's command.

    `unread`: what could not be read, and why.
    """

    verb: JobVerb
    is_done: bool
    jobs: tuple[JobStep, ...]
    said: str = ""
    unread: tuple[str, ...] = ()


def is_job_number(text: str) -> bool:
    """True for a number as squeue prints it: `7`, the task `7_3`, the tasks `7_[3-9]`, the component `7+1`."""
    return _NUMBER.fullmatch(text) is not None


def plan_jobs(verb: JobVerb, numbers: Iterable[str], jobs: Sequence[QueuedJob], pods: Sequence[Pod]) -> list[JobStep]:
    """Return for each of these job numbers what the verb does to the job, or why not. `pods`: the workload pods."""
    by_job: dict[tuple[str, int], list[str]] = {}
    for pod in pods:
        if (id := noted_job(pod)) is not None:
            by_job.setdefault((pod.metadata.namespace, id), []).append("/".join(pod.key))
    return [_plan(verb, number, jobs, by_job) for number in dict.fromkeys(numbers)]


def _plan(verb: JobVerb, number: str, jobs: Sequence[QueuedJob], pods: Mapping[tuple[str, int], list[str]]) -> JobStep:
    match = _NUMBER.fullmatch(number)
    id = int(match["job"]) if match is not None else 0
    job = next((each for each in jobs if each.is_called(number)), None)
    if job is None:  # several array tasks have no record in common, so Slurm's command decides
        return JobStep(job=number, why_not="" if number != str(id) else "Slurm does not know this job")
    gang = parse_comment(job.row.comment)
    if gang is None:
        return JobStep(job=number, name=job.name, user=job.row.user)
    own = tuple(sorted(pods.get((gang.namespace, id), ())))
    is_pending = is_job_pending(job.row.state)
    follows, why_not = _of_pods(verb, gang.namespace, own, is_pending=is_pending)
    return JobStep(job=number, name=str(gang), user=job.row.user, pods=own, follows=follows, why_not=why_not)


def _of_pods(verb: JobVerb, namespace: str, pods: Sequence[str], *, is_pending: bool) -> tuple[str, str]:
    """Return two texts, one of them empty: what the verb means for the pods of the job, and why it is refused."""
    names = " ".join(pod.partition("/")[2] for pod in pods) or "POD"
    if verb is JobVerb.REQUEUE:
        return "", "a job of pods is never requeued: cancel it, and an owner that replaces its pods makes new ones"
    if verb is JobVerb.CANCEL and is_pending:
        delete = f"kubectl -n {namespace} delete pod {names}"
        return "", f"its pods would get another job; delete them, or scale their owner: {delete}"
    if verb is JobVerb.CANCEL:
        return "its pods leave their nodes; an owner that replaces them makes new ones, for a new job", ""
    return ("its pods wait with it, until it is released" if verb is JobVerb.HOLD else "its pods wait in the queue"), ""


def command_for(verb: JobVerb, numbers: Sequence[str]) -> list[str]:
    """Return the command of Slurm that does this to these jobs, as a list of words."""
    return ["scancel", *numbers] if verb is JobVerb.CANCEL else ["scontrol", str(verb), ",".join(numbers)]


def job_step_table(done: JobsDone) -> Table:
    """Return a table with a row for each job: its pods, and what was done or would be."""
    word = str(done.verb) if done.is_done else f"would {done.verb}"
    rows = tuple(
        (
            each.job,
            each.user,
            each.name,
            first_of(each.pods, _SHOWN),
            f"left alone: {each.why_not}" if each.why_not else "; ".join(filter(None, (word, each.follows))),
        )
        for each in done.jobs
    )
    return Table(titles=("JOB", "USER", "NAME", "PODS", "WHAT"), rows=rows)

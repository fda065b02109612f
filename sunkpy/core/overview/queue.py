"""The queue of `kubectl sunk queue`: waiting jobs of people and of pods, in Slurm's order, and what each waits for.

slurmctld sorts by the tier of the partition, then by priority, then by id (sort_job_queue2 in job_scheduler.c); a job
that is held has priority 0. A pod without a job is not in Slurm's queue: it comes last, with the scheduler's message.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from sunkpy.core.explain.job_on_pods import last_message, read_job
from sunkpy.core.explain.words import pending_reason
from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.gang.decide.queued import NEVER_STARTS
from sunkpy.core.gang.identity import JOBS, PODS, parse_comment
from sunkpy.core.gang.phases import PodPhase, pod_phase
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import is_job_pending
from sunkpy.core.model.times import rfc3339
from sunkpy.core.overview.table import Table, count

_TASKS: Final = re.compile(r"(\d+)(?:-(\d+))?(?::(\d+))?")
_NEVER: Final = "starts only if somebody changes it"


class QueuedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as slurmrestd lists it: a `JobRow`, and what only the commands need. Times are in seconds since 1970, or 0.

    `starts_s`: for a waiting job, its begin time or Slurm's estimate; otherwise when it started. `ended_s`: when it
    ended, or will end by its time limit. `array`: the ID of its job array, or 0; `tasks`: the tasks of the array that
    this record stands for. `het_job`: the ID of its heterogeneous job, or 0; `het_offset`: which component it is.
    `required_nodes`: the nodes that it asks for by name. `exit_code`, `signal`: how it ended. `said`: slurmctld's text
    about its reason.
    """

    row: JobRow
    name: str = ""
    qos: str = ""
    priority: int = 0
    starts_s: int = 0
    ended_s: int = 0
    submitted_s: int = 0
    gpus: int = 0
    array: int = 0
    tasks: str = ""
    het_job: int = 0
    het_offset: int = 0
    required_nodes: tuple[str, ...] = ()
    exit_code: int = 0
    signal: int = 0
    said: str = ""

    def is_called(self, number: str) -> bool:
        """True if squeue prints the job with this number: `7`, the task `7_3` of an array, the component `7+1`."""
        if number in (str(self.row.id), f"{self.het_job}+{self.het_offset}" if self.het_job else ""):
            return True
        array, underscore, task = number.partition("_")
        return bool(underscore) and array == str(self.array) and task.isdecimal() and _has_task(self.tasks, int(task))

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions in which the job may start."""
        return tuple(self.row.partition.split(","))


def _has_task(tasks: str, task: int) -> bool:
    """True if a list of array tasks, such as `1-3,7`, `0-9:3` or `2-7%1`, has this one.

    Slurm shortens long lists with dots; then any task may be in the list.
    """
    listed = tasks.partition("%")[0]
    found = _TASKS.findall(listed)
    is_named = any(task in range(int(first), int(last or first) + 1, int(step or 1)) for first, last, step in found)
    return is_named or "..." in listed


class QueueEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An entry of the queue: a job of a person, a job of pods, or a pod without a job (`job` 0).

    `place`: its place in Slurm's order, from 1; 0 for a pod without a job. `never_starts`: it starts only if somebody
    changes something.
    """

    place: int = 0
    door: str
    job: int = 0
    name: str
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    priority: int = 0
    tasks: int = 1
    nodes: int = 0
    gpus: int = 0
    slurm_reason: str = ""
    waits_for: str
    never_starts: bool = False
    since: str = ""
    starts: str = ""


class Queue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of `kubectl sunk queue`. `unread`: what could not be read, and why.

    `missing`: the sides (Kubernetes, Slurm) from which nothing could be read.
    """

    waiting: tuple[QueueEntry, ...] = ()
    unread: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def find_queue(
    jobs: Sequence[QueuedJob] | None, pods: Iterable[Pod], tiers: Mapping[str, int], now_s: float
) -> tuple[QueueEntry, ...]:
    """Return the queue in Slurm's order. `jobs`: None if Slurm was not asked; then the queue comes from pods alone."""
    waiting_pods = [pod for pod in pods if pod_phase(pod) is PodPhase.WAITING]
    if jobs is None:
        return tuple(_by_their_pods(waiting_pods))
    ordered = sorted((job for job in jobs if is_job_pending(job.row.state)), key=lambda job: _order(job, tiers))
    known = {job.row.id for job in jobs}
    left = [each for each in _by_their_pods(waiting_pods) if each.job not in known]
    return (*(_waiting(job, place, now_s) for place, job in enumerate(ordered, 1)), *left)


def _order(job: QueuedJob, tiers: Mapping[str, int]) -> tuple[int, int, int]:
    return -max(tiers.get(name, 0) for name in job.partitions), -job.priority, job.row.id


def _waiting(job: QueuedJob, place: int, now_s: float) -> QueueEntry:
    row, gang = job.row, parse_comment(job.row.comment)
    return QueueEntry(
        place=place,
        door=PODS if gang is not None else JOBS,
        job=row.id,
        name=str(gang) if gang is not None else job.name,
        user=row.user,
        account=row.account,
        partition=row.partition,
        qos=job.qos,
        priority=job.priority,
        tasks=row.tasks,
        nodes=row.min_nodes,
        gpus=job.gpus,
        slurm_reason=row.reason,
        waits_for=words_for(row.reason),
        never_starts=row.reason in NEVER_STARTS,
        since=_time(job.submitted_s),
        starts=_time(job.starts_s) if job.starts_s > now_s else "",
    )


def words_for(slurm_reason: str) -> str:
    """Return in words what a job with this pending reason of Slurm waits for."""
    if cure := NEVER_STARTS.get(slurm_reason):
        return f"{cure.replace('the pod', 'it')}: {_NEVER}"
    return pending_reason(slurm_reason) or slurm_reason or "Slurm has not looked at it yet"


def _by_their_pods(pods: Sequence[Pod]) -> Iterator[QueueEntry]:
    """Yield an entry for the waiting pods of each job, and for each pod without a job."""
    by_job: defaultdict[tuple[int, str], list[Pod]] = defaultdict(list)
    for pod in pods:
        job = read_job([pod], placed=()).job
        by_job[(job.id, "") if job is not None else (0, pod.uid)].append(pod)
    for (job_id, _), members in by_job.items():
        job = read_job(members, placed=()).job
        reason = job.slurm.state_reason if job is not None else ""
        more = f" and {count(len(members) - 1, 'other pod')}" if len(members) > 1 else ""
        gates = ", ".join(sorted({gate.name for pod in members for gate in pod.spec.scheduling_gates}))
        said = last_message(members) or "the scheduler has not seen it yet"
        yield QueueEntry(
            door=PODS,
            job=job_id,
            name="/".join(members[0].key) + more,
            slurm_reason=reason,
            waits_for=f"scheduling gate {gates}" if gates else words_for(reason) if reason else said,
            never_starts=reason in NEVER_STARTS,
            since=min(pod.metadata.creation_timestamp for pod in members),
        )


def _time(seconds: int) -> str:
    return rfc3339(datetime.fromtimestamp(seconds, UTC)) if seconds > 0 else ""


# ------------------------------------------------------------------------------------------------------------- as text


def queue_table(waiting: Iterable[QueueEntry]) -> Table:
    """Return the queue as a table with a row for each entry."""
    return Table(
        titles=(
            "PLACE", "DOOR", "JOB", "NAME", "USER", "ACCOUNT", "PARTITION", "QOS", "PRIORITY", "NODES", "GPUS",
            "SINCE", "STARTS", "REASON", "WAITS FOR",
        ),
        rows=tuple(map(_row, waiting)),
        wide=frozenset({"ACCOUNT", "QOS", "SINCE", "REASON"}),
    )  # fmt: skip


def _row(each: QueueEntry) -> tuple[str, ...]:
    job = f"{each.job}{f' ×{each.tasks}' if each.tasks > 1 else ''}" if each.job else ""
    numbers = (each.priority if each.place else 0, each.nodes, each.gpus)
    priority, nodes, gpus = (str(number) if number else "" for number in numbers)
    return (
        str(each.place or ""), each.door, job, each.name, each.user, each.account, each.partition, each.qos, priority,
        nodes, gpus, each.since, each.starts, each.slurm_reason, each.waits_for,
    )  # fmt: skip


def waiting_table(waiting: Iterable[QueueEntry]) -> Table:
    """Return a table that counts the queue's entries by where they wait (Slurm or Kubernetes) and for what, the most
    frequent first.
    """
    counts = Counter((each.door, each.waits_for) for each in waiting)
    rows = tuple((door, str(number), text) for (door, text), number in counts.most_common())
    return Table(titles=("WAITS AT", "JOBS", "FOR"), rows=rows)

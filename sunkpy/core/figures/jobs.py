"""Metrics of jobs: how many are in each state and what is allocated to them, in all and by user, account and partition.

They count as slurmctld does. Slurm keeps one record for all waiting tasks of a job array. The figures `slurm_jobs`,
`pending` and `hold` count each of these tasks; other numbers of jobs count records. The total of a user or account
counts all records; the total of a partition leaves out ended jobs, unless they are still completing. A suspended job
still has its resources. Memory is in MiB, whatever slurmctld's help says.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from sunkpy.core.figures.family import MetricFamily, Sample, single
from sunkpy.core.growth.waiting import WaitingJob
from sunkpy.core.model.gres import Indices
from sunkpy.core.model.states import is_job_ended, is_job_pending

States = frozenset[str]


class JobRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What metrics need to know of a job. `tasks`: how many tasks of a job array wait; 1 for any other job.

    `cpus`: how many are allocated to the job; while it waits, how many it asks for. `memory_mib`, `gpus`: allocated to
    the job, 0 while it waits. `devices`: node → the indices of the job's GRES there, while it runs. `comment`: where
    the scheduler writes for which pods a job is: the comment for jobs of the scheduler's own Slurm user, the admin
    comment for all other jobs. `partition`: may name several, with commas, while the job waits. `started_s`: seconds
    since 1970, 0 if the job has not started. `waited_s`: seconds from when the job could have started until it started.
    `waits`: what a waiting job asks of nodes; None for other jobs, or if it was not read.
    """

    id: int
    state: States
    reason: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    tasks: int = 1
    min_nodes: int = 0
    max_nodes: int = 0
    nodes: tuple[str, ...] = ()
    cpus: int = 0
    memory_mib: int = 0
    gpus: int = 0
    devices: dict[str, Indices] = {}
    comment: str = ""
    started_s: int = 0
    waited_s: int = 0
    waits: WaitingJob | None = None

    @property
    def is_held(self) -> bool:
        """True if the job's user or an admin holds it (`scontrol hold`)."""
        return self.reason in _HELD


_HELD: Final = frozenset({"JobHeldUser", "JobHeldAdmin"})
_NODE_LIMIT: Final = "PartitionNodeLimit"

_FLAGS: Final = {
    "bootfail": "BOOT_FAIL",
    "cancelled": "CANCELLED",
    "completed": "COMPLETED",
    "completing": "COMPLETING",
    "configuring": "CONFIGURING",
    "deadline": "DEADLINE",
    "expediting": "EXPEDITING",
    "failed": "FAILED",
    "fed_requeued": "REQUEUE_FED",
    "node_failed": "NODE_FAIL",
    "outofmemory": "OUT_OF_MEMORY",
    "powerup_node": "POWER_UP_NODE",
    "preempted": "PREEMPTED",
    "requeued": "REQUEUED",
    "resizing": "RESIZING",
    "revoked": "REVOKED",
    "running": "RUNNING",
    "signaling": "SIGNALING",
    "stageout": "STAGE_OUT",
    "suspended": "SUSPENDED",
    "timeout": "TIMEOUT",
}
_STATES: Final[Mapping[str, Callable[[States], bool]]] = {
    **{name: (lambda state, flag=flag: flag in state) for name, flag in _FLAGS.items()},  # type: ignore[misc]
    "finished": is_job_ended,
    "started": lambda state: not is_job_pending(state),
}
_HELP: Final = {
    "": "Jobs that slurmctld knows, ended ones included",
    "pending": "Jobs that wait in the queue. Each task of a job array counts",
    "hold": "Jobs that wait and are held",
    "cpus_alloc": "CPUs that running and suspended jobs have",
    "memory_alloc": "Memory that running and suspended jobs have, in MiB",
    "gpus_alloc": "GPUs that running and suspended jobs have",
    "nodes_alloc": "Nodes that running and suspended jobs have",
    "max_job_nodes": "The most nodes that a waiting job would take",
    "min_job_nodes": "The least number of nodes that a waiting job needs; of all such jobs the largest",
    "max_job_nodes_nohold": "The most nodes that a waiting job would take; held jobs do not count",
    "min_job_nodes_nohold": (
        "The least number of nodes that a waiting job needs; of all such jobs the largest; held jobs do not count"
    ),
    "wait_part_node_limit": "Waiting jobs that want more nodes than the partition allows",
}


class Tally:
    """Counts and sums over the jobs that are added to it: all jobs, or those of one user, account or partition."""

    def __init__(self) -> None:
        self._records: Counter[States] = Counter()
        self._nodes: set[str] = set()
        self._sums = dict.fromkeys(("pending", "hold", "cpus_alloc", "memory_alloc", "gpus_alloc"), 0)
        self._waiting = dict.fromkeys(
            ("max_job_nodes", "min_job_nodes", "max_job_nodes_nohold", "min_job_nodes_nohold"), 0
        )
        self._over_limit = 0

    def add(self, job: JobRow) -> None:
        """Add one job to the counts and sums."""
        self._records[job.state] += 1
        self._over_limit += job.reason == _NODE_LIMIT
        if is_job_pending(job.state):
            self._add_waiting(job)
        elif "RUNNING" in job.state or "SUSPENDED" in job.state:
            self._sums["cpus_alloc"] += job.cpus
            self._sums["memory_alloc"] += job.memory_mib
            self._sums["gpus_alloc"] += job.gpus
            self._nodes.update(job.nodes)

    def _add_waiting(self, job: JobRow) -> None:
        self._sums["pending"] += job.tasks
        self._sums["hold"] += job.tasks if job.is_held else 0
        for kind in ("",) if job.is_held else ("", "_nohold"):
            for bound, nodes in (("max", max(job.max_nodes, job.min_nodes)), ("min", job.min_nodes)):
                name = f"{bound}_job_nodes{kind}"
                self._waiting[name] = max(self._waiting[name], nodes)

    @property
    def common(self) -> dict[str, int]:
        """The figures that exist for the cluster, users, accounts and partitions: suffix of the metric's name
        (`running`) → number.
        """
        counts = {name: sum(n for s, n in self._records.items() if test(s)) for name, test in _STATES.items()}
        return counts | self._sums

    @property
    def of_all(self) -> dict[str, int]:
        """The figures of the whole cluster: suffix of the metric's name after `slurm_jobs` (`running`) → number."""
        waiting = sum(count for state, count in self._records.items() if is_job_pending(state))
        tasks = self._records.total() - waiting + self._sums["pending"]
        return self.common | {"": tasks, "nodes_alloc": len(self._nodes)}

    @property
    def of_person(self) -> dict[str, int]:
        """The figures of a user or an account: suffix of the metric's name (`running`) → number."""
        return self.common | {"": self._records.total(), "nodes_alloc": len(self._nodes)}

    @property
    def of_partition(self) -> dict[str, int]:
        """The figures of a partition: suffix of the metric's name after `slurm_partition_jobs` (`running`) → number."""
        open_ = sum(n for s, n in self._records.items() if not is_job_ended(s) or "COMPLETING" in s)
        return self.common | self._waiting | {"": open_, "wait_part_node_limit": self._over_limit}


def job_families(jobs: Iterable[JobRow], tiers: Mapping[str, int]) -> Iterator[MetricFamily]:
    """Yield all metrics of jobs. `tiers`: partition → its PriorityTier. A partition without jobs gets the value 0 in
    each metric `slurm_partition_jobs*`.

    A job that waits for several partitions counts in the one with the highest tier, which slurmctld tries first.
    """
    whole = Tally()
    users: defaultdict[str, Tally] = defaultdict(Tally)
    accounts: defaultdict[str, Tally] = defaultdict(Tally)
    by_partition = {name: Tally() for name in tiers}
    waiting: Counter[tuple[str, ...]] = Counter()
    for job in jobs:
        whole.add(job)
        users[job.user].add(job)
        accounts[job.account].add(job)
        partition = max(job.partition.split(","), key=lambda name: tiers.get(name, 0))
        by_partition.setdefault(partition, Tally()).add(job)
        if is_job_pending(job.state):
            waiting[partition, job.reason or "None"] += job.tasks
    for end, value in whole.of_all.items():
        yield single(_name("slurm_jobs", end), _help(end), value)
    yield from _labelled("slurm_user_jobs", "username", {name: tally.of_person for name, tally in users.items()})
    yield from _labelled("slurm_account_jobs", "account", {name: tally.of_person for name, tally in accounts.items()})
    parts = {name: tally.of_partition for name, tally in by_partition.items()}
    yield from _labelled("slurm_partition_jobs", "partition", parts)
    yield MetricFamily(
        name="sunkpy_jobs_pending",
        help="Jobs that wait in the queue, by partition and by Slurm's reason. Each task of a job array counts",
        labels=("partition", "reason"),
        samples=[Sample(labels, count) for labels, count in waiting.items()],
    )


def _labelled(name: str, label: str, figures: Mapping[str, Mapping[str, int]]) -> Iterator[MetricFamily]:
    ends = next(iter(figures.values()), {})
    for end in ends:
        samples = [Sample((key,), each[end]) for key, each in figures.items()]
        yield MetricFamily(name=_name(name, end), help=_help(end), labels=(label,), samples=samples)


def _name(name: str, end: str) -> str:
    return f"{name}_{end}" if end else name


def _help(end: str) -> str:
    return _HELP.get(end) or f"Jobs: {end.replace('_', ' ')}"

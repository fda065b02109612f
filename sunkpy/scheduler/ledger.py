"""All gangs that the scheduler knows, found by their id or by one of their jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec

from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.job import Job, is_news
from sunkpy.core.model.states import JobId, JobStates, SlurmJob
from sunkpy.runtime.groups import Groups
from sunkpy.runtime.queue import Urgency, WorkQueue
from sunkpy.runtime.turns import in_turns
from sunkpy.scheduler.jobs.due import DueJobs
from sunkpy.scheduler.record import GangRecord


class Ledger:
    """The gang records of one leader; `clock` is monotonic, in seconds. `due`: the jobs that are to be read in full.

    `queue`: the gangs that need a pass. `changed`: the gangs that have to be recognised again before that. In both,
    namespaces take turns, so that no gang waits for all pods of another namespace.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.queue: WorkQueue[GangId] = WorkQueue("gangs", urgency=self.urgency, group=_namespace)
        self.changed: WorkQueue[GangId] = WorkQueue("changed-gangs", urgency=self.urgency, group=_namespace)
        self._gangs: dict[GangId, GangRecord] = {}
        self._by_job: dict[JobId, GangId] = {}
        self._generations: Groups[GangId, GangId, GangId] = Groups()
        self.due = DueJobs()
        self.all_jobs_known = False
        """True once all jobs of gangs are known. Before that, no job is submitted."""

    def __iter__(self) -> Iterator[GangRecord]:
        return iter(tuple(self._gangs.values()))

    def __len__(self) -> int:
        return len(self._gangs)

    def get(self, id: GangId | None) -> GangRecord | None:
        """Return the record of a gang; None if the gang is unknown."""
        return self._gangs.get(id) if id is not None else None

    def ensure(self, id: GangId) -> GangRecord:
        """Return the record of a gang; a new one if the gang was unknown."""
        if id not in self._gangs:
            self._gangs[id] = GangRecord(id=id, seen_at=self.clock())
            self._generations.put(_any_generation(id), id, id)
        return self._gangs[id]

    def urgency(self, id: GangId) -> Urgency:
        """Return how urgent the gang is in the queues."""
        record = self._gangs.get(id)
        return record.urgency if record is not None else Urgency.NONE

    def by_job(self, job: JobId) -> GangRecord | None:
        """Return the record of the gang that has this job; None if the job is unknown."""
        id = self._by_job.get(job)
        return self._gangs.get(id) if id else None

    def details(self, job: JobId) -> SlurmJob | None:
        """Return a gang's job as Slurm last described it in full; None if it was never read in full."""
        record = self.by_job(job)
        known = record.jobs.get(job) if record is not None else None
        return known.slurm if known is not None and known.slurm.partition else None

    def take_job(self, record: GangRecord, job: SlurmJob, *, asked_at: float) -> None:
        """Record a job of the gang, as Slurm has just described it."""
        self.add_job(record, SlurmJob(id=job.id, user=job.user))
        self.change_job(record, job.id, lambda known: known.read(job, at=max(asked_at, known.known_at)))

    def add_job(self, record: GangRecord, job: SlurmJob) -> None:
        """Record a job of the gang that was not read in full yet."""
        owner = self.by_job(job.id)
        if owner is not None and owner is not record:
            # Slurm has reused the ID, and the new job's comment names this gang.
            owner.jobs.pop(job.id, None)
            self.queue.add(owner.id)
        self._by_job[job.id] = record.id
        if job.id not in record.jobs:
            excluded = frozenset(job.excluded_nodes) or None
            self._put(record, None, Job(slurm=job, known_at=self.clock(), excluded=excluded))

    def change_job(self, record: GangRecord, id: JobId, change: Callable[[Job], Job]) -> bool:
        """Change the record of a job, if it is still known. Return whether that may change a decision."""
        known = record.jobs.get(id)
        return known is not None and self._put(record, known, change(known))

    def _put(self, record: GangRecord, known: Job | None, job: Job) -> bool:
        """Store a job in place of what was known of it. Return whether that may change a decision."""
        if job is known:
            return False
        record.jobs[job.id] = job
        self.due.file(job)
        return known is None or is_news(job, known)

    def drop_job(self, record: GangRecord, job: JobId) -> None:
        """Forget a job that has ended."""
        record.jobs.pop(job, None)
        record.ends_counted.discard(job)
        if self._by_job.get(job) == record.id:
            del self._by_job[job]
            self.due.forget(job)

    def forget(self, record: GangRecord) -> None:
        """Forget a gang and its jobs, and wake the hooks that wait for it."""
        for job in tuple(record.jobs):
            self.drop_job(record, job)
        self._gangs.pop(record.id, None)
        self._generations.drop(_any_generation(record.id), record.id)
        record.is_doubted = True  # hooks may still look at it, and changes of its pods do not reach it any more
        record.fire()

    def other_generations(self, id: GangId) -> list[GangRecord]:
        """Return the records of all other generations of a gang: same owner and unit, earlier or later pods."""
        others = (other for other in self._generations.of(_any_generation(id)) if other != id)
        return [self._gangs[other] for other in sorted(others, key=lambda other: other.generation)]

    async def observe(self, states: JobStates, *, asked_at: float) -> list[GangRecord]:
        """Record the states of all jobs that Slurm knows. Return the gangs for which that may change a decision."""
        changed = []
        async for record in in_turns(self):
            has_news = False
            for id, known in record.jobs.items():
                has_news |= self._put(record, known, known.observed(states.get(id), asked_at=asked_at))
            if has_news:
                changed.append(record)
        return changed


def _namespace(id: GangId) -> str:
    return id.namespace


def _any_generation(id: GangId) -> GangId:
    return msgspec.structs.replace(id, generation="") if id.generation else id

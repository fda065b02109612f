"""The ledger: one record for each gang that the scheduler knows. A record is found by the gang's id, or by one of the
gang's Slurm jobs.
"""

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
    """The records of all gangs that a leader knows, by gang id and by Slurm job. `clock` returns monotonic seconds.
    `due` are the jobs that have to be read from Slurm with all details.

    `queue`: the gangs about which the scheduler has to decide again. `changed`: the gangs whose value has to be made
    again from their pods before such a decision. In both queues namespaces take turns, so a gang does not have to wait
    for all gangs of another namespace.
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
        """Return the record of a gang. If the gang has no record yet, make one."""
        if id not in self._gangs:
            self._gangs[id] = GangRecord(id=id, seen_at=self.clock())
            self._generations.put(_any_generation(id), id, id)
        return self._gangs[id]

    def urgency(self, id: GangId) -> Urgency:
        """Return how urgent the gang is in the queues; `Urgency.NONE` if the gang is unknown."""
        record = self._gangs.get(id)
        return record.urgency if record is not None else Urgency.NONE

    def by_job(self, job: JobId) -> GangRecord | None:
        """Return the record of the gang that has this Slurm job; None if no known gang has the job."""
        id = self._by_job.get(job)
        return self._gangs.get(id) if id else None

    def details(self, job: JobId) -> SlurmJob | None:
        """Return all details of a gang's job, as Slurm last gave them. None if no known gang has the job, or if the job
        was never read with its details.
        """
        record = self.by_job(job)
        known = record.jobs.get(job) if record is not None else None
        return known.slurm if known is not None and known.slurm.partition else None

    def take_job(self, record: GangRecord, job: SlurmJob, *, asked_at: float) -> None:
        """Record that a job belongs to the gang, with all details that Slurm has just given. `asked_at`: when Slurm was
        asked for them, in seconds of the clock.
        """
        self.add_job(record, SlurmJob(id=job.id, user=job.user))
        self.change_job(record, job.id, lambda known: known.read(job, at=max(asked_at, known.known_at)))

    def add_job(self, record: GangRecord, job: SlurmJob) -> None:
        """Record that a job belongs to the gang, before all details of the job have been read. If another gang had a
        job with this ID, that gang loses the job: Slurm has used the ID again.
        """
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
        """Replace what is known of a job by what `change` makes of it, if the gang still has the job. Return True if
        the change may lead to another decision about the gang.
        """
        known = record.jobs.get(id)
        return known is not None and self._put(record, known, change(known))

    def _put(self, record: GangRecord, known: Job | None, job: Job) -> bool:
        """Store what is known of a job now, in place of what was known before (`known`; None for a new job). Return
        True if the difference may lead to another decision about the gang.
        """
        if job is known:
            return False
        record.jobs[job.id] = job
        self.due.file(job)
        return known is None or is_news(job, known)

    def drop_job(self, record: GangRecord, job: JobId) -> None:
        """Remove a job from the record of its gang."""
        record.jobs.pop(job, None)
        record.ends_counted.discard(job)
        if self._by_job.get(job) == record.id:
            del self._by_job[job]
            self.due.forget(job)

    def forget(self, record: GangRecord) -> None:
        """Remove a gang and its jobs from the ledger, and wake the Prologs and Epilogs that wait for the gang."""
        for job in tuple(record.jobs):
            self.drop_job(record, job)
        self._gangs.pop(record.id, None)
        self._generations.drop(_any_generation(record.id), record.id)
        record.is_doubted = True  # hooks may still look at it, and changes of its pods do not reach it any more
        record.fire()

    def other_generations(self, id: GangId) -> list[GangRecord]:
        """Return the records of the other generations of a gang, in the order of their names. Generations are gangs of
        the same owner and unit that follow one another: before and after a restart the owner makes different pods.
        """
        others = (other for other in self._generations.of(_any_generation(id)) if other != id)
        return [self._gangs[other] for other in sorted(others, key=lambda other: other.generation)]

    async def observe(self, states: JobStates, *, asked_at: float) -> list[GangRecord]:
        """Record the states of all jobs, as Slurm has given them; a known job that is not in `states` counts as
        missing. Return the records of the gangs about which another decision may follow. `asked_at`: when Slurm was
        asked, in seconds of the clock.
        """
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

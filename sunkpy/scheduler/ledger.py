"""All gangs that the scheduler knows, found by their id or by one of their jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from sunkpy.core.gang.identity import GangId
from sunkpy.core.model import hostlist
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.runtime.queue import Urgency
from sunkpy.scheduler.due_jobs import DueJobs
from sunkpy.scheduler.entries import GangEntry, JobEntry

_A_TURN = 250


class Ledger:
    """The entries of one leader; `clock` is monotonic, in seconds. `due`: the jobs that are to be read in full.

    `on_lost` is called with the gang whose job's number is another gang's now.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.on_lost: Callable[[GangId], None] = lambda _: None
        self._gangs: dict[GangId, GangEntry] = {}
        self._by_job: dict[JobId, GangId] = {}
        self._generations: dict[GangId, set[GangId]] = {}
        self._excluding: dict[GangId, None] = {}
        self.due = DueJobs(self._gang_with)
        self.is_whole = False
        """All jobs of gangs are known: before that, none is submitted."""

    def __iter__(self) -> Iterator[GangEntry]:
        return iter(tuple(self._gangs.values()))

    def __len__(self) -> int:
        return len(self._gangs)

    def get(self, id: GangId | None) -> GangEntry | None:
        """The gang, if it is known."""
        return self._gangs.get(id) if id is not None else None

    def ensure(self, id: GangId) -> GangEntry:
        """The gang, made known if it was not."""
        if id not in self._gangs:
            self._gangs[id] = GangEntry(id=id, seen_at=self._clock())
            self._generations.setdefault(_any_generation(id), set()).add(id)
        return self._gangs[id]

    def urgency(self, id: GangId) -> Urgency:
        """Whether the gang goes before others."""
        entry = self._gangs.get(id)
        return entry.urgency if entry is not None else Urgency.NONE

    def by_job(self, job: JobId) -> GangEntry | None:
        """The gang of a job, if the job is known."""
        id = self._by_job.get(job)
        return self._gangs.get(id) if id else None

    def job_under(self, id: GangId | None) -> JobId | None:
        """The job under which the pods of a gang were bound, if it is known."""
        entry = self.get(id)
        return entry.bound_to if entry is not None else None

    def adopt_job(self, entry: GangEntry, job: SlurmJob) -> JobEntry:
        """A job that Slurm had some time ago, made known as one of the gang's: how it is now, the next poll tells."""
        adopted = self.add_job(entry, job.id, user=job.user, excluded=job.excluded_nodes, required=job.required_nodes)
        adopted.is_allocation = not job.is_batch
        return adopted

    def take_job(self, entry: GangEntry, job: SlurmJob, *, asked_at: float) -> JobEntry:
        """A job of which Slurm has just told, made known as one of the gang's, as it was then."""
        adopted = self.add_job(entry, job.id, user=job.user)
        adopted.read(job, nodes=tuple(hostlist.expand(job.nodes)), at=max(asked_at, adopted.known_at))
        return adopted

    def add_job(
        self, entry: GangEntry, job: JobId, *, user: str, excluded: Iterable[str] = (), required: Iterable[str] = ()
    ) -> JobEntry:
        """The job, made known as one of the gang's; `user` is whose it is."""
        owner = self.by_job(job)
        if owner is not None and owner is not entry:
            # Slurm began to count anew: the comment says whose job it is now.
            owner.jobs.pop(job, None)
            self.on_lost(owner.id)
        self._by_job[job] = entry.id
        if job not in entry.jobs:
            entry.jobs[job] = JobEntry(
                id=job,
                known_at=self._clock(),
                user=user,
                excluded=tuple(excluded),
                required=tuple(required),
                on_change=self._job_changed,
            )
            self._job_changed(entry.jobs[job])
        return entry.jobs[job]

    def _job_changed(self, job: JobEntry) -> None:
        self.due.file(job)
        if job.excluded and (entry := self._gang_with(job)) is not None:
            self._excluding[entry.id] = None

    def _gang_with(self, job: JobEntry) -> GangEntry | None:
        entry = self.by_job(job.id)
        return entry if entry is not None and entry.jobs.get(job.id) is job else None

    def drop_job(self, entry: GangEntry, job: JobId) -> None:
        """Forget a job that has ended."""
        entry.jobs.pop(job, None)
        if self._by_job.get(job) == entry.id:
            del self._by_job[job]

    def forget(self, entry: GangEntry) -> None:
        """Forget a gang and its jobs, and wake whoever waits for it."""
        for job in tuple(entry.jobs):
            self.drop_job(entry, job)
        self._gangs.pop(entry.id, None)
        self._excluding.pop(entry.id, None)
        siblings = self._generations.get(_any_generation(entry.id), set())
        siblings.discard(entry.id)
        if not siblings:
            self._generations.pop(_any_generation(entry.id), None)
        entry.fire()

    def other_generations(self, id: GangId) -> list[GangEntry]:
        """The gangs of the same owner and unit, before or after this one, that are known."""
        others = self._generations.get(_any_generation(id), set()) - {id}
        return [self._gangs[other] for other in sorted(others, key=lambda other: other.generation)]

    def note_sending(self, entry: GangEntry, excluded: tuple[str, ...]) -> None:
        """A job that excludes these nodes is about to be submitted for the gang."""
        entry.sending = excluded
        if excluded:
            self._excluding[entry.id] = None

    def excluding(self) -> Iterator[GangEntry]:
        """The gangs that exclude nodes (`GangEntry.excluded`), without a look at all others."""
        for id in tuple(self._excluding):
            entry = self._gangs.get(id)
            if entry is not None and entry.excluded:
                yield entry
            elif entry is None or not any(job.excluded for job in entry.jobs.values()):
                del self._excluding[id]

    def forgive_silence(self) -> list[GangEntry]:
        """Slurm answers again: the gangs whose last submit was not answered may try at once."""
        waiting = [entry for entry in self if entry.uncertain_since is not None]
        for entry in waiting:
            entry.forgive()
        return waiting

    async def observe(
        self, states: Mapping[JobId, frozenset[str]], *, asked_at: float, is_early: bool = False
    ) -> list[GangEntry]:
        """Take in the states of all jobs that Slurm knows; the gangs for which something changed.

        One that comes early after another says nothing new of jobs that it does not name. A part of them at a time: of
        tens of thousands, others have a turn in between.
        """
        changed = []
        for number, entry in enumerate(self):
            if number % _A_TURN == 0:
                await asyncio.sleep(0)
            jobs = [job for job in entry.jobs.values() if not is_early or job.id in states]
            news = [job.observe(states.get(job.id), asked_at=asked_at) for job in jobs]
            if any(news):
                changed.append(entry)
        return changed


def _any_generation(id: GangId) -> GangId:
    return msgspec.structs.replace(id, generation="") if id.generation else id

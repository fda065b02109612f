"""Finds out to which gangs those jobs belong that the ledger (the records of gangs) does not have: first jobs that
annotations of pods name, then all others.

Such jobs were left by an earlier leader, or made by a submit whose answer was lost. Only the job's own comment says to
which gang the job belongs: anybody who may edit a pod can write the ID of another job into its annotations.

Jobs are read one by one, a few at a time, and first those for which a Prolog, an Epilog or a pod waits. One answer with
50,000 jobs would have 250 MB and take longer than the timeout of the request, and slurmrestd offers no smaller lists.
The search remembers to whom each job belongs, so it reads the jobs of other users only once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from sunkpy.core.gang.identity import GangId, gang_of
from sunkpy.core.model.states import JobId, SlurmJob, holds_something
from sunkpy.runtime.fresh_answer import FreshAnswer
from sunkpy.runtime.queue import Urgency, WorkQueue, run_workers
from sunkpy.runtime.turns import in_turns
from sunkpy.scheduler.leader import Leader
from sunkpy.slurm.errors import NotFound, SlurmError, UnreadableJob

AGAIN_S: Final = 1.0
NOBODY: Final = GangId(namespace="", name="", uid="")
"""Stands for the gang of a job that belongs to no gang."""

_WORKERS: Final = 8
_ONLY_URGENT: Final = 4

Learned = Callable[[JobId, SlurmJob | None, float, bool], None]
"""A function that is called with the ID of a job, the job (None if Slurm does not know it), the time of the request
(monotonic), and whether the job's nodes could be read.
"""


class JobSearch:
    """Reads jobs from Slurm that the scheduler's records do not have, to find the gang to which each belongs. `learned`
    is called with each job that was read, and with each job that Slurm does not know.
    """

    def __init__(self, leader: Leader, *, learned: Learned) -> None:
        self._leader = leader
        self._user = leader.settings.slurm.user
        self._ledger = leader.ledger
        self._learned = learned
        self._queue: WorkQueue[JobId] = WorkQueue("unknown-jobs", urgency=self._urgency)
        self._urgent: dict[JobId, Urgency] = {}
        self._untried: set[JobId] = set()
        self._all_tried = asyncio.Event()
        self._failed: dict[JobId, SlurmError] = {}
        self._search = FreshAnswer(self._read_all, clock=leader.clock)
        self._log = structlog.get_logger("leader")
        self.whose: dict[JobId, GangId | None] = {}
        """The gang of each job that was read; None: Slurm does not know the job."""

    def ask_about(self, job: JobId, *, urgency: Urgency = Urgency.SOON) -> None:
        """Queue a job to be read from Slurm, to learn its gang and state. `urgency` is `FIRST` if a Prolog or Epilog
        waits for the answer.
        """
        if self._urgency(job) > urgency:
            self._urgent[job] = urgency
            self._ask(job)

    async def all(self, *, sent_after: float) -> None:
        """Read all pending or running jobs that the scheduler's records do not have, in a search that begins later than
        `sent_after` (monotonic seconds). Callers at about the same time share one search.

        Raises:
            SlurmError: Slurm, or one of the jobs, could not be read. Jobs that were read are not read again by the next
                try.
        """
        await self._search.get(sent_after=sent_after)

    async def run(self) -> None:
        """Read the queued jobs one by one, until cancelled."""
        metrics = self._leader.queues
        await run_workers(self._queue, self._read, workers=_WORKERS, only_urgent=_ONLY_URGENT, metrics=metrics)

    def _urgency(self, job: JobId) -> Urgency:
        return self._urgent.get(job, Urgency.NONE)

    def _ask(self, job: JobId) -> None:
        self._untried.add(job)
        self._all_tried.clear()
        self._queue.add(job)

    async def _read_all(self) -> None:
        """Read all jobs in Slurm that the scheduler's records do not have, and the jobs that are queued already. Return
        when each was tried once.

        Raises:
            SlurmError: Slurm, or one of the jobs, could not be read.
        """
        unknown: list[JobId] = []
        whose: dict[JobId, GangId | None] = {}
        async for id, state in in_turns((await self._leader.slurm.jobs_state()).items()):
            if not holds_something(state):
                continue
            if id in self.whose:
                whose[id] = self.whose[id]
            if whose.get(id) != NOBODY and self._ledger.by_job(id) is None:
                unknown.append(id)
                if id not in self._untried:
                    self._ask(id)
        if self._ledger.all_jobs_known:  # from now on the gangs of ended jobs need not be remembered
            self.whose = whose | {id: self.whose[id] for id in unknown if id in self.whose}
        if self._untried:
            await self._all_tried.wait()
        if error := next((self._failed[id] for id in unknown if id in self._failed), None):
            raise error

    async def _read(self, id: JobId) -> float | None:
        """Read one job, and record to which gang it belongs. Return after how many seconds to read it again; None if
        that is not necessary.
        """
        asked_at, has_nodes, job = self._leader.clock(), True, None
        try:
            job = await self._leader.slurm.job(id)
        except NotFound:
            pass
        except UnreadableJob as error:
            job, has_nodes = error.job, False
        except SlurmError as error:  # only the pods whose note names this job wait
            self._log.debug("job not read", job=id, error=str(error))
            self._failed[id] = error
            return AGAIN_S
        finally:
            self._untried.discard(id)
            if not self._untried:
                self._all_tried.set()
        self._failed.pop(id, None)
        self.whose[id] = (gang_of(job, scheduler=self._user) or NOBODY) if job is not None else None
        self._learned(id, job, asked_at, has_nodes)
        if not has_nodes and id in self._urgent:
            return AGAIN_S
        self._urgent.pop(id, None)
        return None

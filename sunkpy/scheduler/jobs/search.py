"""Finds the gangs of jobs that are not known here: first of jobs that are noted on pods, then of all others.

An earlier leader left them, or a submit whose answer was lost made them. What counts is what a job says of itself:
anybody who may edit a pod can note another's job there.

Jobs are read one by one, a few at a time, first those that somebody waits for: 50,000 jobs in one answer are 250 MB,
come after the time for which an answer is waited for, and slurmrestd offers no part of them. The search remembers to
whom a job belongs. So it reads jobs of others only once, however often it searches.
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
"""Stands in the place of a gang for a job that belongs to none."""

_WORKERS: Final = 8
_ONLY_URGENT: Final = 4

Learned = Callable[[JobId, SlurmJob | None, float, bool], None]
"""Called with a job as it is, None when Slurm does not know it, when (monotonic) it was asked for, and whether its
nodes could be read.
"""


class JobSearch:
    """`learned` hears of each job that was read, when it is known whose it is."""

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
        """Find out whose a job is, or how it is now; `FIRST` if something waits for the answer."""
        if self._urgency(job) > urgency:
            self._urgent[job] = urgency
            self._ask(job)

    async def all(self, *, sent_after: float) -> None:
        """Read every job that holds something, or may come to hold it, and that the ledger does not know. The search
        began after `sent_after` (monotonic). One search serves all callers that ask at about the same time.

        Raises:
            SlurmError: Slurm, or one of the jobs, could not be read. What was read counts when it is tried again.
        """
        await self._search.get(sent_after=sent_after)

    async def run(self) -> None:
        """Read until cancelled."""
        metrics = self._leader.queues
        await run_workers(self._queue, self._read, workers=_WORKERS, only_urgent=_ONLY_URGENT, metrics=metrics)

    def _urgency(self, job: JobId) -> Urgency:
        return self._urgent.get(job, Urgency.NONE)

    def _ask(self, job: JobId) -> None:
        self._untried.add(job)
        self._all_tried.clear()
        self._queue.add(job)

    async def _read_all(self) -> None:
        """Those that are noted on pods are among them: when it returns, each was asked for once."""
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
        if self._ledger.all_jobs_known:  # of those that ended nobody needs to know any more whose they were
            self.whose = whose | {id: self.whose[id] for id in unknown if id in self.whose}
        if self._untried:
            await self._all_tried.wait()
        if error := next((self._failed[id] for id in unknown if id in self._failed), None):
            raise error

    async def _read(self, id: JobId) -> float | None:
        """Find out whose a job is; when to ask again."""
        asked_at, has_nodes, job = self._leader.clock(), True, None
        try:
            job = await self._leader.slurm.job(id)
        except NotFound:
            pass
        except UnreadableJob as error:
            job, has_nodes = error.job, False
        except SlurmError as error:  # nothing may follow for its pods; the others do not wait for it
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

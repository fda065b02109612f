"""The states of all jobs, read each second while there is a job of ours, and the details of those that need them.

Most jobs that find room start within the second in which they are submitted, and where no Prolog tells of it, as on
nodes that are EXTERNAL, only this does: for a while after a submission states are read more often. What is read sooner
than others would be tells only of jobs that have changed: that a job is not there counts once in each interval, and why
jobs wait is asked as often as otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping

import structlog

from sunkpy.core.gang.identity import gang_of, is_anothers, parse_comment
from sunkpy.core.model import hostlist
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.scheduler.entries import GangEntry, JobEntry
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.slurm import Slurm, pace
from sunkpy.slurm.errors import SlurmError

NOT_SEALED = (
    "its slurm.conf needs JobSubmitPlugins=lua with the job_submit.lua of the chart, and it the jwt.key of here"
)
_WAITING_PER_POLL = 50
_STARTED_PER_POLL = 500
_DETAILS_IN_FLIGHT = 8
_A_TURN = 250
SOON_S = 0.2
YOUNG_S = 2.0
"""slurmctld looks at what was submitted within the second."""


class JobPoller:
    """Reads the states of all jobs each second while there is a job of ours, and tells the ledger.

    `user` is the scheduler's own Slurm user. `on_states` is called with each answer, before anything follows from it.
    """

    def __init__(
        self,
        slurm: Slurm,
        ledger: Ledger,
        metrics: SchedulerMetrics,
        *,
        user: str,
        poll_s: float,
        clock: Callable[[], float],
        on_change: Callable[[GangEntry], None],
        on_states: Callable[[Mapping[JobId, frozenset[str]]], None] = lambda _: None,
    ) -> None:
        self._slurm = slurm
        self._ledger = ledger
        self._user = user
        self._poll_s = poll_s
        self._clock = clock
        self._on_change = on_change
        self._on_states = on_states
        self._log = structlog.get_logger("jobs")
        self._read_at = clock()
        self._took_s = 0.0
        self._young_until = self._whole_at = float("-inf")
        self._hurried = asyncio.Event()
        self.problem: str | None = None
        metrics.poll_age_seconds.set_function(lambda: clock() - self._read_at)

    async def run(self) -> None:
        """Poll until cancelled. What cannot be read changes nothing."""
        while True:
            is_early = time.monotonic() - self._whole_at < self._poll_s
            try:
                if any(entry.jobs for entry in self._ledger):
                    await self.poll(is_early=is_early)
                self._recovered()
            except SlurmError as error:
                self._failed(error)
            await self._pause()

    def hurry(self) -> None:
        """A job was submitted: look soon whether it has started."""
        self._young_until = time.monotonic() + YOUNG_S
        self._hurried.set()

    async def _pause(self) -> None:
        """Until the next poll. That is soon while a job is young, but states are not read for more than a share."""
        since = time.monotonic()
        soon_s = min(max(SOON_S, pace.SHARE * self._took_s), self._poll_s)
        while True:
            self._hurried.clear()
            now = time.monotonic()
            left_s = since + (soon_s if now < self._young_until else self._poll_s) - now
            if left_s <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._hurried.wait()

    async def poll(self, *, is_early: bool = False) -> None:
        """One reading of all states, and of the jobs of which more must be known; `is_early`: the last is young."""
        asked_at, began_s = self._clock(), time.monotonic()
        states = await self._slurm.jobs_state()
        self._took_s = time.monotonic() - began_s
        if not is_early:
            self._whole_at = began_s
        self._read_at = asked_at
        self._on_states(states)
        changed = await self._ledger.observe(states, asked_at=asked_at, is_early=is_early)
        waiting = 0 if is_early else _WAITING_PER_POLL
        wanted = await self._ledger.due.take(asked_at, started=_STARTED_PER_POLL, waiting=waiting)
        # Of a job that has started nothing follows before it is known where.
        told_later = {entry.id for entry, job in wanted if job.has_started and len(entry.jobs) == 1}
        for number, entry in enumerate(changed):
            if number % _A_TURN == 0:
                await asyncio.sleep(0)
            if entry.id not in told_later:
                self._on_change(entry)
        told_later &= {entry.id for entry in changed}
        limit = asyncio.Semaphore(_DETAILS_IN_FLIGHT)

        async def read(entry: GangEntry, job: JobEntry) -> None:
            async with limit:
                is_new = await self._read(entry, job)
            if is_new or entry.id in told_later:
                self._on_change(entry)

        async with asyncio.TaskGroup() as group:
            for entry, job in wanted:
                group.create_task(read(entry, job))

    async def _read(self, entry: GangEntry, job: JobEntry) -> bool:
        """Whether it told anything new."""
        asked_at = self._clock()
        job.note_read(at=asked_at)
        try:
            found = await self._slurm.job(job.id)
        except SlurmError as error:
            self._log.debug("job not read", job=job.id, error=str(error))
            return False
        if gang_of(found, scheduler=self._user) == entry.id:
            return job.read(found, nodes=tuple(hostlist.expand(found.nodes)), at=asked_at)
        if not is_anothers(found, entry.id, scheduler=self._user):
            is_ended = job.observe(found.state, asked_at=asked_at, is_read=True)
            return self._unproved(entry, job, found) or is_ended
        was_ours = not job.reappeared
        job.lose_number()
        return was_ours

    def _unproved(self, entry: GangEntry, job: JobEntry, found: SlurmJob) -> bool:
        """slurmctld lacks the chart's script, or the comment was changed since: is that new?"""
        if job.is_unproved:
            return False
        job.is_unproved = True
        self._log.warning("a job does not prove whose it is", gang=str(entry.id), job=job.id, comment=found.comment)
        if parse_comment(found.comment) == entry.id and not found.admin_comment:
            why = f"slurmctld has not sealed Slurm job {job.id}: {NOT_SEALED}"
        else:
            why = f"somebody has changed the comment of Slurm job {job.id}, by which it is known to be this pod's"
        entry.back_off(why, now=self._clock())
        return True

    def _recovered(self) -> None:
        if self.problem is not None:
            self._log.info("the states of jobs can be read again")
        self.problem = None

    def _failed(self, error: SlurmError) -> None:
        if self.problem is None:
            self._log.warning("the states of jobs cannot be read: nothing follows from that", error=str(error))
        self.problem = str(error)

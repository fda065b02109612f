"""Polls Slurm: reads the states of all jobs every second while a gang has a job, and the details of jobs that need it.

Prologs and Epilogs report earlier than a poll where jobs begin and end. If they call from all nodes, and no job is in a
state whose next change they do not report, the states are read only every 5 s, except for a minute after polls have
failed. If Slurm needs long for its answers, the pause grows, to half a minute at most, so that reading takes about a
tenth of the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import structlog
from msgspec.structs import replace

from sunkpy.core.gang.identity import gang_of, is_anothers, parse_comment
from sunkpy.core.gang.job.job import Job
from sunkpy.core.model.states import JobId, JobStates, SlurmJob
from sunkpy.runtime.turns import in_turns
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.record import GangRecord
from sunkpy.slurm import pace
from sunkpy.slurm.errors import SlurmError

NOT_SEALED = (
    "slurm.conf needs JobSubmitPlugins=lua and the job_submit.lua of the chart; "
    "slurmctld needs the same jwt.key as the scheduler"
)
_STEADY = 5
"""The pause while hooks report all changes, as a multiple of `poll_seconds`."""
_REASONS_EACH_S, _MOST_REASONS = 10, 50
_STARTED_PER_POLL = 500
_DETAILS_IN_FLIGHT = 8
_UNWATCHED_S = 60.0
"""Slurm lets a requeued job wait for two minutes, so polls with shorter pauses cannot miss it."""


class JobPoller:
    """Reads the states of all jobs while a gang has a job, records them, and puts the gangs whose jobs have changed
    into the queue for a decision.

    `on_states` is called with each answer of Slurm, before the answer is recorded. `have_hooks` returns whether Prologs
    and Epilogs call the scheduler from all nodes.
    """

    def __init__(
        self,
        leader: Leader,
        *,
        on_states: Callable[[JobStates], None] = lambda _: None,
        have_hooks: Callable[[], bool] = lambda: False,
    ) -> None:
        self._leader = leader
        self._user = leader.settings.slurm.user
        self._ledger = leader.ledger
        self._clock = leader.clock
        self._poll_s = leader.settings.poll_seconds
        self._on_states = on_states
        self._have_hooks = have_hooks
        self._log = structlog.get_logger("jobs")
        self._read_at = self._clock()
        self._watched_since = float("-inf")
        self._reasons_at = float("-inf")
        self._took_s = 0.0
        self._is_away = False
        leader.metrics.poll_age_seconds.set_function(lambda: self._clock() - self._read_at)

    async def run(self) -> None:
        """Poll until cancelled. If a poll fails, the states as last read stay, and the next poll follows."""
        while True:
            try:
                if any(record.jobs for record in self._ledger):
                    await self.poll()
                else:
                    self._saw_all(self._clock())
                if self._is_away:
                    self._log.info("the states of jobs can be read again")
                self._is_away = False
            except SlurmError as error:
                if not self._is_away:
                    self._log.warning(
                        "the states of jobs cannot be read: the scheduler goes on with those it read last",
                        error=str(error),
                    )
                self._is_away = True
            await asyncio.sleep(self.pause_s)
            if self.is_steady:
                await self._ledger.due.wait_for_poll(within_s=(_STEADY - 1) * self._poll_s)

    @property
    def pause_s(self) -> float:
        """The pause before the next poll, in seconds. It is longer if Slurm needed long for its last answer, because
        reading states may take only a part of the time.
        """
        return max(self._poll_s, pace.Cost(took_s=self._took_s).pause_s)

    @property
    def is_steady(self) -> bool:
        """True if Prologs and Epilogs report all changes of jobs that matter, so polls may be rarer: they call from all
        nodes, all jobs of gangs are known, and no poll has failed for a while.
        """
        was_away = self._is_away or self._clock() - self._watched_since < _UNWATCHED_S
        return not was_away and self._ledger.all_jobs_known and self._have_hooks()

    async def poll(self) -> None:
        """Read the states of all jobs once, and then the details of those jobs that need it. Gangs whose jobs have
        changed are put into the queue for a decision.
        """
        asked_at = self._clock()
        states = await self._leader.slurm.jobs_state()
        self._took_s = self._clock() - asked_at
        self._saw_all(asked_at)
        self._on_states(states)
        changed = await self._ledger.observe(states, asked_at=asked_at)
        due = self._ledger.due.take(asked_at, started=_STARTED_PER_POLL, waiting=self._reasons_due(asked_at))
        wanted = [(record, job) for job in due if (record := self._ledger.by_job(job.id)) is not None]
        # A pass cannot use the start of a job before its nodes are known.
        told_later = {record.id for record, job in wanted if job.has_started and len(record.jobs) == 1}
        async for record in in_turns(changed):
            if record.id not in told_later:
                self._ledger.queue.add(record.id)
        told_later &= {record.id for record in changed}
        limit = asyncio.Semaphore(_DETAILS_IN_FLIGHT)

        async def read(record: GangRecord, job: Job) -> None:
            async with limit:
                known = record.jobs.get(job.id)
                is_read = known is None or known.read_at > job.read_at  # a hook has called meanwhile
                is_new = not is_read and await self._read(record, job.id)
            if is_new or record.id in told_later:
                self._ledger.queue.add(record.id)

        async with asyncio.TaskGroup() as group:
            for record, job in wanted:
                group.create_task(read(record, job))

    def _reasons_due(self, now: float) -> int:
        """Return how many pending jobs may be read in this poll with all details, to learn why they wait. The number
        grows by a fixed amount with each second since the last poll in which some were read, up to a limit.
        """
        count = int(min(_REASONS_EACH_S * (now - self._reasons_at), _MOST_REASONS))
        self._reasons_at = now if count else self._reasons_at
        return count

    def is_watched_since(self, at: float) -> bool:
        """True if polls have been frequent enough since the time `at` to show each job that was requeued. A job that
        had a node at that time and still runs then still has the node.

        It is False if the states could not be read for a while since then: slurmctld may have been killed, and may have
        forgotten jobs.
        """
        is_seen = not self._is_away and self._clock() - self._read_at <= _UNWATCHED_S
        return is_seen and at >= self._watched_since

    def _saw_all(self, asked_at: float) -> None:
        if self._is_away or asked_at - self._read_at > _UNWATCHED_S:
            self._watched_since = asked_at
        self._read_at = asked_at

    async def _read(self, record: GangRecord, id: JobId) -> bool:
        """Read the details of a job from Slurm and record them. Return True if another decision about the gang may
        follow.
        """
        asked_at, change = self._clock(), partial(self._ledger.change_job, record, id)
        change(lambda job: replace(job, read_at=asked_at))
        try:
            found = await self._leader.slurm.job(id)
        except SlurmError as error:
            self._log.debug("job not read", job=id, error=str(error))
            return False
        if gang_of(found, scheduler=self._user) == record.id:
            return change(lambda job: job.read(found, at=asked_at))
        if is_anothers(found, record.id, scheduler=self._user):
            return change(lambda job: replace(job, is_anothers=True))
        is_ended = change(lambda job: job.observed(found.state, asked_at=asked_at))
        return self._unproved(record, found) or is_ended

    def _unproved(self, record: GangRecord, job: SlurmJob) -> bool:
        """Record that a job lacks the proof that it belongs to the gang: slurmctld does not run the chart's
        job_submit.lua, or somebody has changed the comment of the job. Return True if this was not known before.
        """
        if not self._ledger.change_job(record, job.id, lambda known: replace(known, is_unproved=True)):
            return False
        self._log.warning("a job does not prove whose it is", gang=str(record.id), job=job.id, comment=job.comment)
        if parse_comment(job.comment) == record.id and not job.admin_comment:
            why = f"slurmctld has not sealed Slurm job {job.id}: {NOT_SEALED}"
        else:
            why = f"somebody has changed the comment of Slurm job {job.id}, by which it is known to be this pod's"
        record.back_off(why, now=self._clock())
        return True

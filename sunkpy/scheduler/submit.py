"""What the scheduler does to placeholder jobs in Slurm: submit, update, tell how the pods ended, cancel.

A service is asked for as an allocation first, which Slurm grants at once or never; what it refuses is queued as a batch
job. Slurm keeps a FAILED job on record for a refusal, so nothing is tried for a while where one was refused, nor while
one of our own jobs waits there: Slurm would let nothing pass that one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from sunkpy.core.gang import actions as act
from sunkpy.core.gang.identity import GangId, is_anothers
from sunkpy.core.gang.request import JobRequest
from sunkpy.core.gang.terms import Change, Terms
from sunkpy.core.model.states import JobId
from sunkpy.runtime.queue import WorkQueue
from sunkpy.scheduler.entries import GangEntry, JobEntry
from sunkpy.scheduler.job_search import JobSearch
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.slurm import JobSubmission, JobUpdate, Slurm, errors

TELL_AGAIN_S = 3.0
CANCEL_AGAIN_S = 30.0
_REJECTED_FIRST_S = 15.0
_LATE_SUBMIT_S = 2.0
_REFUSED_FOR_S = 10.0
_SLURM_USER = "slurm"
_QUEUING_AT_ONCE = 10
"""Requests about jobs that only queue: slurmctld takes no more jobs per second from more, and others want an answer."""


class NotSubmitted(Exception):
    """Slurm refused the job, or did not answer; the gang waits before the next try."""


class JobWriter:
    """Each write may be repeated: what Slurm has done already is no error.

    All that is done to a job is done as its owner, so that Slurm allows no more than it allows them. `user` is the
    scheduler's own Slurm user. `on_submitted` is called after each new job.
    """

    def __init__(
        self,
        *,
        slurm: Slurm,
        user: str,
        search: JobSearch,
        ledger: Ledger,
        queue: WorkQueue[GangId],
        metrics: SchedulerMetrics,
        clock: Callable[[], float],
        on_submitted: Callable[[], None] = lambda: None,
    ) -> None:
        self._slurm = slurm
        self._user = user
        self._search = search
        self._ledger = ledger
        self._queue = queue
        self._metrics = metrics
        self._clock = clock
        self._on_submitted = on_submitted
        self._last_queued: dict[str, JobId] = {}
        self._refused_at: dict[str, float] = {}
        self._queuing = asyncio.Semaphore(_QUEUING_AT_ONCE)
        self._log = structlog.get_logger("jobs")

    async def submit(self, entry: GangEntry, request: JobRequest) -> JobId | None:
        """Hand a job to Slurm; None when the gang has one: an earlier submit, whose answer was lost, made it.

        Raises:
            NotSubmitted: with Slurm's words.
        """
        if entry.uncertain_since is not None and await self._find_lost_answer(entry):
            return None
        try:
            async with self._queuing:
                if any(job.view(self._clock()).is_live for job in entry.jobs.values()):
                    return None  # its prolog was faster than this
                job = await self._hand_over(entry, request)
        except (errors.Unreachable, errors.Malformed) as error:
            entry.uncertain_since = self._clock()
            self._search.slurm_was_away(since=entry.uncertain_since)
            raise self._failed(entry, error, first_s=_LATE_SUBMIT_S) from error
        except errors.SlurmError as error:
            raise self._failed(entry, error, first_s=_REJECTED_FIRST_S) from error
        entry.refused = ""
        job.terms = request.terms
        return job.id

    async def _hand_over(self, entry: GangEntry, request: JobRequest) -> JobEntry:
        """The one place where jobs come from. Whatever it raises, Slurm has made one job at most."""
        asked, partition, user = submission(request), request.options.partition, self._as(request.options.user)
        granted = None
        if request.at_once and self._may_have_room(partition):
            granted = await self._slurm.allocate_now(asked, user=user)
            if granted is None:
                self._refused_at[partition] = self._clock()
        submitted = granted or await self._slurm.submit_job(asked, user=user)
        if granted is None:
            self._last_queued[partition] = submitted.job_id
        result = "queued" if granted is None else "at once"
        self._metrics.submits.labels(result).inc()
        self._log.info("submitted", gang=str(entry.id), job=submitted.job_id, to=result, warnings=submitted.warnings)
        nodes = {"excluded": request.excluded_nodes, "required": request.required_nodes}
        job = self._ledger.add_job(entry, submitted.job_id, user=user or self._user, **nodes)
        job.is_allocation = granted is not None
        self._on_submitted()
        return job

    def _may_have_room(self, partition: str) -> bool:
        """Nothing was refused there lately, and the last job of ours that was queued there does not wait any more."""
        if self._clock() - self._refused_at.get(partition, float("-inf")) < _REFUSED_FOR_S:
            return False
        last = self._last_queued.get(partition)
        entry = self._ledger.by_job(last) if last is not None else None
        job = entry.jobs.get(last) if entry is not None and last is not None else None
        return job is None or not job.view(self._clock()).may_wait

    async def _find_lost_answer(self, entry: GangEntry) -> bool:
        """After a submit without an answer: was there a job after all? A late one is found by its prolog."""
        assert entry.uncertain_since is not None
        found = await self._search.find(entry.id, sent_after=entry.uncertain_since + _LATE_SUBMIT_S / 2)
        entry.uncertain_since = None
        live = [job for job in found if not job.is_ended]
        for job in live:
            self._ledger.adopt_job(entry, job)
        self._queue.add(entry.id)
        return bool(live)

    def _as(self, user: str) -> str:
        """Whose token a request needs; empty for the scheduler's own."""
        return user if user != self._user else ""

    def _failed(self, entry: GangEntry, error: errors.SlurmError, *, first_s: float) -> NotSubmitted:
        self._metrics.submits.labels("failed").inc()
        delay_s = entry.back_off(error.message, now=self._clock(), first_s=first_s)
        self._log.warning("not submitted", gang=str(entry.id), error=error.message, retry_in_s=round(delay_s, 1))
        return NotSubmitted(error.message)

    async def exclude(self, entry: GangEntry, action: act.UpdateExcluded) -> None:
        """Replace the nodes that a pending job must not use."""
        job = entry.jobs[action.job]
        try:
            async with self._queuing:
                if not await self._is_still(entry, job):
                    return  # the poll tells
                await self._slurm.exclude_nodes(action.job, action.excluded, user=self._as(job.user))
        except (errors.AlreadyDone, errors.NotFound, errors.Rejected) as error:
            self._log.warning("job not updated", job=action.job, error=error.message)
        job.exclude(action.excluded)

    async def change(self, entry: GangEntry, action: act.UpdateTerms) -> str | None:
        """Change a pending job; Slurm's words when it refuses, and the job stays as it is; None: it is not there."""
        job, change = entry.jobs[action.job], action.change
        try:
            if change.fields:
                if not await self._is_still(entry, job):
                    return None
                await self._slurm.update_job(action.job, update(change), user=self._as(job.user))
        except (errors.AlreadyDone, errors.NotFound):
            return None  # the poll tells
        except errors.Rejected as error:
            job.refused_terms = change.asked
            return error.message
        job.terms, job.refused_terms = change.to, change.asked if change.fixed else None
        job.turn += 1
        self._log.info("job changed", gang=str(entry.id), job=action.job, change=str(change))
        return ""

    async def finish(self, entry: GangEntry, action: act.Finish) -> None:
        """Tell a placeholder to end with the exit code of its pods; again every few seconds."""
        job, now = entry.jobs[action.job], self._clock()
        if job.told_at is not None and now - job.last_told_at < TELL_AGAIN_S:
            return
        job.told_at, job.last_told_at = job.told_at or now, now
        try:
            if await self._is_still(entry, job):
                signal = "USR2" if action.exit_code else "USR1"
                await self._slurm.signal_job(action.job, signal, user=self._as(job.user))
        except (errors.AlreadyDone, errors.NotFound, errors.Busy, errors.Rejected) as error:
            self._log.info("placeholder not told", job=action.job, error=error.message)
        # Not before: one that Slurm could not be asked about is not deaf.
        job.heard_at = job.heard_at or self._clock()

    async def cancel(self, entry: GangEntry, job: JobId, *, why: str) -> None:
        """Cancel a job; again after a while, should Slurm have missed it."""
        known, now = entry.jobs[job], self._clock()
        if known.cancelled_at is not None and now - known.cancelled_at < CANCEL_AGAIN_S:
            return
        self._log.info("cancelling", gang=str(entry.id), job=job, why=why)
        # The poll tells of a job that has ended already.
        with contextlib.suppress(errors.AlreadyDone, errors.NotFound):
            if await self._is_still(entry, known):
                await self._cancel_as(self._as(known.user), job)
                self._metrics.cancels.inc()
        known.cancelled_at = now

    async def _is_still(self, entry: GangEntry, job: JobEntry) -> bool:
        """Its number is that of this job, and not another's to whom a slurmctld gave it that was killed."""
        try:
            found, _ = await self._search.read(job.id)
        except errors.NotFound:
            return False
        except errors.UnreadableJob as error:
            found = error.job
        if not is_anothers(found, entry.id, scheduler=self._user):
            return True
        self._log.warning("its number is another job's now", gang=str(entry.id), job=job.id, user=found.user)
        job.lose_number()
        self._queue.add(entry.id)
        return False

    async def _cancel_as(self, user: str, job: JobId) -> None:
        """As SlurmUser when the owner may not, for Slurm does not know them any more: the job would stay for ever."""
        try:
            await self._slurm.cancel_job(job, user=user)
        except (errors.Rejected, errors.Unauthorized) as error:
            if not user:
                raise
            self._log.warning("not cancelled by its owner", job=job, user=user, error=error.message)
            await self._slurm.cancel_job(job, user=_SLURM_USER)


def update(change: Change) -> JobUpdate:
    """A change in the words of the client."""
    to = change.to
    told = Terms(**{field: getattr(to, field) for field in change.fields})
    return JobUpdate(
        name=told.name or None,
        comment=told.comment or None,
        partition=told.partition or None,
        account=told.account or None,
        qos=told.qos or None,
        reservation=to.reservation if "reservation" in change.fields else None,
        constraints=to.constraint if "constraint" in change.fields else None,
        licenses=to.licenses if "licenses" in change.fields else None,
        dependency=to.dependency if "dependency" in change.fields else None,
        required_switches=told.switches.count if told.switches is not None else None,
        wait_for_switch=told.switches.wait_s if told.switches is not None else None,
        time_limit_minutes=told.time_limit_min,
    )


def submission(request: JobRequest) -> JobSubmission:
    """A request in the words of the client."""
    options = request.options
    return JobSubmission(
        name=request.name,
        script=request.script,
        comment=request.comment,
        partition=options.partition,
        account=options.account,
        qos=options.qos,
        reservation=options.reservation,
        constraints=options.constraint,
        licenses=options.licenses,
        dependency=options.dependency,
        wckey=options.wckey,
        switches=options.switches.count if options.switches is not None else 0,
        switches_wait_s=options.switches.wait_s if options.switches is not None else None,
        minimum_nodes=request.minimum_nodes,
        maximum_nodes=request.maximum_nodes,
        tasks=request.tasks,
        cpus_per_task=request.cpus_per_task,
        memory_mib_per_node=request.memory_mib_per_node,
        memory_mib_per_cpu=request.memory_mib_per_cpu,
        tres_per_node=request.gres_per_node,
        tres_per_task=request.gres_per_task,
        time_limit_minutes=request.time_limit_min,
        shared=options.shared,
        excluded_nodes=request.excluded_nodes,
        required_nodes=request.required_nodes,
    )

"""Submits, changes, signals and cancels placeholder jobs in Slurm.

For a service, an allocation is requested first, which Slurm either grants at once or refuses. If it refuses, a batch
job is queued instead. Slurm keeps a FAILED job on record for each refusal. So after a refusal no allocation is
requested in that partition for a while.
"""

from __future__ import annotations

import asyncio
import contextlib

import structlog
from msgspec.structs import replace

from sunkpy.core.gang import actions as act
from sunkpy.core.gang.identity import is_anothers
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.scheduler.jobs.lines import NamespaceShares, SubmitLines
from sunkpy.scheduler.jobs.search import JobSearch
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.record import GangRecord
from sunkpy.slurm import errors

SIGNAL_AGAIN_S = 3.0
CANCEL_AGAIN_S = 30.0
_REJECTED_FIRST_S = 15.0
_SLURM_USER = "slurm"
_QUEUING_AT_ONCE = 10
"""The most requests at a time that submit or update queued jobs. More would not make slurmctld faster, and would delay
other requests.
"""


class NotSubmitted(Exception):
    """No job was submitted: Slurm refused it or did not answer, or the gang has to wait before it may submit. The text
    says why.
    """


class JobWriter:
    """Submits, changes, signals and cancels jobs in Slurm. Calls that change a job may be repeated: if Slurm has
    already done what is asked, that is not an error.

    Requests about a job are sent as the Slurm user who owns it, so Slurm checks what this user may do.
    """

    def __init__(self, leader: Leader, search: JobSearch) -> None:
        self._leader = leader
        self._user, self._times = leader.settings.slurm.user, leader.settings.times
        self._clock = leader.clock
        self._slurm = leader.slurm
        self._ledger = leader.ledger
        self._search = search
        self.lines = SubmitLines(leader)
        self._shares = NamespaceShares(leader.settings.jobs_per_namespace, leader.clock)
        self._refused_at: dict[str, float] = {}
        self._queuing = asyncio.Semaphore(_QUEUING_AT_ONCE)
        self._log = structlog.get_logger("jobs")

    async def submit(self, record: GangRecord, spec: JobSpec) -> JobId | None:
        """Submit a job for the gang, and return the job's ID. None if the gang already has a job, because an earlier
        submit made one whose answer was lost.

        Raises:
            NotSubmitted: Slurm refused the job or did not answer, or the gang has to wait; the text says why.
        """
        if record.uncertain_since is not None and await self._find_lost_answer(record):
            return None
        if why := self.lines.why_waits(record, spec):
            raise NotSubmitted(why)
        # Pods that run without a job get one at once, because until then Slurm may start other jobs on their node.
        is_new = not any(pod.spec.node_name for pod in record.recognised.pods)
        if is_new and (wait_s := self._shares.wait_s(record.id.namespace)):
            record.retry_at, record.refused = self._clock() + wait_s, self._shares.explain(record.id.namespace)
            raise NotSubmitted(record.refused)
        try:
            async with self._queuing:
                if record.has_live_job:
                    return None  # meanwhile a Prolog of a job from a lost answer has called
                job = await self._hand_over(record, spec)
        except (errors.Unreachable, errors.Malformed) as error:
            record.uncertain_since = self._clock()
            raise self._failed(record, error, first_s=self._times.late_submit_s) from error
        except errors.LimitReached as error:
            self._leader.metrics.submits.labels("failed").inc()
            self.lines.refused(record, spec, error.message)
            raise NotSubmitted(error.message) from error
        except errors.SlurmError as error:
            self.lines.left(record, spec, is_taken=False)
            raise self._failed(record, error, first_s=_REJECTED_FIRST_S) from error
        self.lines.left(record, spec, is_taken=True)
        record.was_submitted()
        self._ledger.change_job(record, job, lambda known: replace(known, spec=spec))
        return job

    async def _hand_over(self, record: GangRecord, spec: JobSpec) -> JobId:
        """Have Slurm make the job, record the job as the gang's, and return its ID.

        Raises:
            SlurmError: the job was refused, or it is not known whether Slurm has made it; it has not made two.
        """
        partition, user = spec.partition, self._as(spec.user)
        granted = None
        if spec.at_once and self._may_have_room(partition):
            granted = await self._slurm.allocate_now(spec, user=user)
            if granted is None:
                self._refused_at[partition] = self._clock()
        submitted = granted or await self._slurm.submit_job(spec, user=user)
        result = "queued" if granted is None else "at once"
        self._leader.metrics.submits.labels(result).inc()
        self._log.info("submitted", gang=str(record.id), job=submitted.job_id, to=result, warnings=submitted.warnings)
        job = SlurmJob(
            id=submitted.job_id,
            user=user or self._user,
            is_batch=granted is None,
            excluded_nodes=spec.excluded_nodes,
            required_nodes=spec.required_nodes,
        )
        self._ledger.add_job(record, job)
        self._shares.note(record.id.namespace)
        return submitted.job_id

    def _may_have_room(self, partition: str) -> bool:
        """True if an allocation may be requested in the partition: it has not refused one lately."""
        return self._clock() - self._refused_at.get(partition, float("-inf")) >= self._times.allocation_refused_s

    async def _find_lost_answer(self, record: GangRecord) -> bool:
        """Search Slurm for a job of the gang that a submit has made although Slurm did not answer. Return True if the
        gang has a live job now. If Slurm makes the job even later, it becomes known when its Prolog calls.
        """
        assert record.uncertain_since is not None
        await self._search.all(sent_after=record.uncertain_since + self._times.late_submit_s / 2)
        record.uncertain_since = None
        self._ledger.queue.add(record.id)
        return record.has_live_job

    def _as(self, user: str) -> str:
        """Return the Slurm user with whose token a request is sent; empty text if that is the scheduler's own user."""
        return user if user != self._user else ""

    def _failed(self, record: GangRecord, error: errors.SlurmError, *, first_s: float) -> NotSubmitted:
        self._leader.metrics.submits.labels("failed").inc()
        delay_s = record.back_off(error.message, now=self._clock(), first_s=first_s)
        self._log.warning("not submitted", gang=str(record.id), error=error.message, retry_in_s=round(delay_s, 1))
        return NotSubmitted(error.message)

    async def exclude(self, record: GangRecord, action: act.UpdateExcluded) -> None:
        """Replace the list of nodes that a pending job must not use. If Slurm refuses this, that is only logged."""
        user = self._as(record.jobs[action.job].slurm.user)
        try:
            async with self._queuing:
                await self._slurm.exclude_nodes(action.job, action.excluded, user=user)
        except (errors.AlreadyDone, errors.NotFound, errors.Rejected) as error:
            self._log.warning("list of excluded nodes of a job not updated", job=action.job, error=error.message)
        self._ledger.change_job(record, action.job, lambda job: job.excluding(action.excluded))

    async def change(self, record: GangRecord, action: act.UpdateTerms) -> str | None:
        """Change the terms of a pending job, such as its time limit. Return empty text if Slurm has done it; Slurm's
        reason if Slurm refuses and the job stays as it is; None if the job is gone or has started.
        """
        user, change = self._as(record.jobs[action.job].slurm.user), action.change
        try:
            if change.fields:
                await self._slurm.update_job(action.job, change.to, change.fields, user=user)
        except (errors.AlreadyDone, errors.NotFound):
            return None  # the next poll reads its state
        except errors.Rejected as error:
            self._ledger.change_job(record, action.job, lambda job: replace(job, refused=change.asked))
            return error.message
        self._ledger.change_job(record, action.job, lambda job: job.changed(change))
        self._log.info("job changed", gang=str(record.id), job=action.job, change=str(change))
        return ""

    async def finish(self, record: GangRecord, action: act.Finish) -> None:
        """Send a placeholder job the signal to end with the exit code of its pods. A call within a few seconds of the
        last signal does nothing.
        """
        job, now = record.jobs[action.job], self._clock()
        if job.signalled_at is not None and now - job.signalled_at < SIGNAL_AGAIN_S:
            return
        self._ledger.change_job(record, job.id, lambda job: replace(job, signalled_at=now))
        try:
            signal = "USR2" if action.exit_code else "USR1"
            await self._slurm.signal_job(job.id, signal, user=self._as(job.slurm.user))
        except (errors.AlreadyDone, errors.NotFound, errors.Busy, errors.Rejected) as error:
            self._log.info("the placeholder job did not get the signal to end", job=job.id, error=error.message)
        # Set only after an answer: if Slurm was not reached, the job has not ignored the signal.
        self._ledger.change_job(
            record, job.id, lambda job: replace(job, signal_answered_at=job.signal_answered_at or self._clock())
        )

    async def cancel(self, record: GangRecord, id: JobId, *, why: str) -> None:
        """Cancel a job in Slurm. A call within half a minute of the last cancel of the job does nothing. `why` is for
        the log.
        """
        job, now = record.jobs[id], self._clock()
        if job.cancelled_at is not None and now - job.cancelled_at < CANCEL_AGAIN_S:
            return
        self._log.info("cancelling", gang=str(record.id), job=id, why=why)
        # For a job that has already ended, the next poll reads its state.
        with contextlib.suppress(errors.AlreadyDone, errors.NotFound):
            await self._cancel_as(self._as(job.slurm.user), record, id)
        self._ledger.change_job(record, id, lambda job: replace(job, cancelled_at=now))

    async def _cancel_as(self, user: str, record: GangRecord, job: JobId) -> None:
        """Cancel a job as its owner (`user`). If Slurm no longer accepts this user, cancel it as SlurmUser, because
        otherwise the job would stay for ever.

        SlurmUser may cancel any job. So Slurm is first asked whether this ID is still that of the gang's job; if it is
        another job's, nothing is cancelled.
        """
        try:
            await self._slurm.cancel_job(job, user=user)
        except (errors.Rejected, errors.Unauthorized) as error:
            if is_anothers(await self._read(job), record.id, scheduler=self._user):
                self._log.warning("not cancelled: Slurm has given the id to another job", gang=str(record.id), job=job)
                self._ledger.change_job(record, job, lambda known: replace(known, is_anothers=True))
                self._ledger.queue.add(record.id)
                return
            if not user:
                raise
            self._log.warning(
                "Slurm refuses the cancel by the owner of the job: it is cancelled as SlurmUser",
                job=job,
                user=user,
                error=error.message,
            )
            await self._slurm.cancel_job(job, user=_SLURM_USER)
        self._leader.metrics.cancels.inc()

    async def _read(self, job: JobId) -> SlurmJob:
        """Return a job as Slurm has it now. If the job's list of nodes cannot be read, the job is returned
        without it.
        """
        try:
            return await self._slurm.job(job)
        except errors.UnreadableJob as error:
            return error.job

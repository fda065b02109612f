"""The methods of the Slurm client about jobs: they read, submit, change, signal and cancel them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Final

import msgspec

from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.slurm import errors, wire
from sunkpy.slurm.request import Request
from sunkpy.slurm.submission import allocation_body, batch_body, change_body
from sunkpy.slurm.transport import Transport

_MANY: Final = 2_000


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """A job that Slurm has accepted. It may still never run: read the warnings."""

    job_id: JobId
    warnings: tuple[str, ...] = ()


class JobCalls:
    """The methods of `sunkpy.slurm.client.Slurm` about jobs."""

    _transport: Transport
    _unreadable: MutableMapping[JobId, str]

    async def jobs_state(self, job_ids: Iterable[JobId] = ()) -> dict[JobId, frozenset[str]]:
        """Read the states of all jobs that Slurm remembers, or only of `job_ids`. It takes 0.1 s for 10,000 jobs.

        A job array has one entry, under the array's ID, with the states of all its tasks together; so has a
        heterogeneous job. If a job is not in the result, Slurm does not remember it.
        """
        # A parameter for each ID: slurmrestd refuses a list with commas.
        wanted = [str(job_id) for job_id in job_ids]
        request = Request(
            what="read the states of jobs",
            method="GET",
            endpoint="jobs/state/",
            params={"job_id": wanted} if wanted else {},
            attempts=1,
        )
        try:
            reply = await self._transport.ask(request, wire.JobsStateReply)
        except errors.NotFound:
            if wanted:
                return {}
            raise
        is_long = len(reply.jobs) > _MANY
        return await asyncio.to_thread(_by_id, reply.jobs) if is_long else _by_id(reply.jobs)

    async def job(self, job_id: JobId) -> SlurmJob:
        """Read one job in full. It takes 2–4 ms.

        Raises:
            NotFound: Slurm does not remember the job.
            UnreadableJob: the answer names the job's nodes in a form that this client cannot read.
        """
        request = Request(what=f"read job {job_id}", method="GET", endpoint="job/{name}", name=job_id)
        reply = await self._transport.ask(request, wire.JobsReply)
        found = next((job for job in reply.jobs if job.job_id == job_id), None) or next(iter(reply.jobs), None)
        if found is None:
            raise errors.NotFound(request.what, endpoint=request.label, text="not among the jobs of the answer")
        try:
            return found.to_core()
        except ValueError as error:
            self._note_unreadable(job_id, str(error))
            job = found.without_places.to_core()
            raise errors.UnreadableJob(request.what, endpoint=request.label, text=str(error), job=job) from error

    async def jobs(self) -> list[SlurmJob]:
        """Read all jobs in full, each task of an array by itself. It takes seconds for thousands of jobs: use it for a
        person, not in a loop.

        A job whose nodes cannot be read is returned without them.
        """
        request = Request(what="read all jobs", method="GET", endpoint="jobs/", attempts=1)
        reply = await self._transport.ask(request, wire.JobsReply)
        return [_readable(job) for job in reply.jobs]

    def _note_unreadable(self, job_id: JobId, why: str) -> None:
        """Log an unreadable job once: callers read the same job again and again."""
        if self._unreadable.get(job_id) != why:
            self._unreadable[job_id] = why
            import structlog

            log = structlog.get_logger("slurm-jobs")
            log.warning("the nodes of a job cannot be read", job=job_id, error=why)

    async def submit_job(self, spec: JobSpec, *, user: str = "") -> Submitted:
        """Submit a batch job. If no answer comes, the request is not sent again: after Unreachable, first look for a
        job with this comment.

        `user`: the owner of the job, if it is not the process's own user; later requests about the job must name this
        user as well. With `user`, the request also carries a proof that its sender has the cluster's key (the seal),
        and slurmctld's job_submit.lua (of the chart) copies the job's comment to the admin comment.

        Raises:
            Rejected: bad partition (2000), feature (2029), account (2045)…
        """
        request = Request(
            what=f"submit job {spec.name}{_as(user)}{_wishes(spec)}",
            method="POST",
            endpoint="job/submit",
            user=user,
            body=batch_body(spec, seal=self._seal(user)),
            is_idempotent=False,
        )
        try:
            reply = await self._transport.ask(request, wire.SubmitReply)
        except errors.NotFound as error:
            raise errors.Rejected(
                request.what,
                endpoint=request.label,
                http_status=error.http_status,
                error_number=error.error_number,
                text=error.text,
                hint="it names a node that Slurm does not know",
            ) from error
        return Submitted(job_id=JobId(reply.job_id), warnings=tuple(warning.text for warning in reply.warnings))

    async def allocate_now(self, spec: JobSpec, *, user: str = "") -> Submitted | None:
        """Request an allocation (a job without a script), which Slurm grants at once or refuses. Return None if Slurm
        refuses it: then no job is left in the queue.

        Slurm grants it in 4–40 ms, while a batch job waits for slurmctld's next full second. If no answer comes, the
        request is not sent again. Slurm refuses it if resources are in use (2016), if jobs of the partition wait that
        would go first (2013), with `SchedulerParameters=defer` (2125), and for each reason for which a batch job is
        refused or waits. Most refusals leave a FAILED job with this comment on record. The request always says
        `immediate`: without it, Slurm would hold the connection until the job starts, and the job would fail at its
        start if the caller is gone by then. `user`: the owner of the job, if it is not the process's own user.

        Raises:
            Unreachable, Malformed: the outcome is unknown; first look for a job with this comment.
            Unauthorized, LeaseOver: no job was made.
        """
        request = Request(
            what=f"allocate for job {spec.name}{_as(user)}",
            method="POST",
            endpoint="job/allocate",
            user=user,
            body=allocation_body(spec, seal=self._seal(user)),
            is_idempotent=False,
        )
        try:
            reply = await self._transport.ask(request, wire.SubmitReply)
        except (errors.Busy, errors.Rejected, errors.NotFound, errors.AlreadyDone):
            return None
        return Submitted(job_id=JobId(reply.job_id), warnings=tuple(warning.text for warning in reply.warnings))

    async def exclude_nodes(self, job_id: JobId, nodes: Iterable[str], *, user: str = "") -> None:
        """Replace the list of nodes that a pending job must not use. Idempotent.

        Raises:
            AlreadyDone: the job has ended.
            NotFound: Slurm does not remember the job.
            Rejected: the job has started.
        """
        # slurmrestd understands an empty list as "no change".
        body = {"excluded_nodes": list(nodes) or [""]}
        await self._change(f"exclude nodes from job {job_id}{_as(user)}", job_id, body, user)

    async def update_job(self, job_id: JobId, spec: JobSpec, fields: Iterable[str], *, user: str = "") -> None:
        """Change these fields of a pending job to the values in `spec`. Slurm changes all of them or none. Idempotent.

        Raises:
            AlreadyDone: the job has ended.
            NotFound: Slurm does not remember the job.
            Rejected: Slurm refuses a value, or the job has started.
        """
        body = change_body(spec, fields)
        await self._change(f"change {', '.join(body)} of job {job_id}{_as(user)}", job_id, body, user)

    async def _change(self, what: str, job_id: JobId, body: Mapping[str, object], user: str) -> None:
        sealed = {**body, "extra": self._seal(user)} if user else body
        request = Request(what=what, method="POST", endpoint="job/{name}", name=job_id, user=user, body=sealed)
        await self._transport.call(request, wire.Reply)

    def _seal(self, user: str) -> str:
        return self._transport.seal() if user else ""

    async def signal_job(self, job_id: JobId, signal: str, *, user: str = "") -> None:
        """Send a signal such as USR1 only to the batch script of a job, not to its steps.

        Raises:
            AlreadyDone: the job has ended.
            NotFound: Slurm does not remember the job.
        """
        params = {"signal": signal, "flags": "BATCH_JOB"}
        await self._kill(job_id, f"send {signal} to job {job_id}{_as(user)}", params, user)

    async def cancel_job(self, job_id: JobId, *, user: str = "") -> None:
        """Cancel a pending or running job.

        Raises:
            AlreadyDone: the job has ended.
            NotFound: Slurm does not remember the job.
        """
        await self._kill(job_id, f"cancel job {job_id}{_as(user)}", {}, user)

    async def _kill(self, job_id: JobId, what: str, params: Mapping[str, str], user: str) -> None:
        """Send a DELETE for a job, which signals or cancels it. Slurm may answer 200 without `errors` and refuse only
        in the `status` of the job; this raises an error, too.
        """
        request = Request(what=what, method="DELETE", endpoint="job/{name}", name=job_id, user=user, params=params)
        reply = await self._transport.ask(request, wire.KillReply)
        for status in reply.status or ():
            code = status.error.code
            if code not in (0, "", "SUCCESS"):
                number = code if isinstance(code, int) else 0
                raise errors.classify(request, http_status=200, error_number=number, text=status.error.message)


def _by_id(jobs: Iterable[wire.WireJobState]) -> dict[JobId, frozenset[str]]:
    states: dict[JobId, frozenset[str]] = {}
    for job in jobs:
        id, before = job.id, states.get(job.id)
        states[id] = wire.flags(job.state) if before is None else before | frozenset(job.state)
    return states


def _as(user: str) -> str:
    return f" as {user}" if user else ""


def _wishes(spec: JobSpec) -> str:
    """Return, for an error's text, the requests that Slurm may refuse by name: ` (partition gpu, account chem)`."""
    wishes = {
        "partition": spec.partition,
        "account": spec.account,
        "qos": spec.qos,
        "reservation": spec.reservation,
        "constraints": spec.constraint,
        "licenses": spec.licenses,
        "dependency": spec.dependency,
    }
    text = ", ".join(f"{name} {value}" for name, value in wishes.items() if value)
    return f" ({text})" if text else ""


def _readable(job: wire.WireJob) -> SlurmJob:
    try:
        return job.to_core()
    except ValueError:
        return job.without_places.to_core()

"""What sunkpy asks of Slurm, one method per question. Costs and traps: see each method.

All raise `sunkpy.slurm.errors.SlurmError`; the docstrings name the kinds a caller should tell apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from sunkpy.core.model.states import JobId, SlurmJob, SlurmNode
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import errors, wire
from sunkpy.slurm.auth import MintedToken, TokenFile, TokenSource
from sunkpy.slurm.recorder import Recorder
from sunkpy.slurm.submission import JobSubmission
from sunkpy.slurm.transport import Transport

T = TypeVar("T")


class Ping(msgspec.Struct, frozen=True, kw_only=True):
    """Who answered. `is_up`: some slurmctld responds."""

    version: str
    release: str
    cluster: str
    is_up: bool


class NodesSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes at one moment; `last_update_s` is what to ask `nodes(since_s=…)` with."""

    nodes: dict[str, SlurmNode]
    last_update_s: int


class NotModified(msgspec.Struct, frozen=True):
    """Slurm says that nothing has changed since the snapshot you have. Not the same as: there is nothing."""


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted job; accepted does not mean that it can ever run: read the warnings."""

    job_id: JobId
    warnings: tuple[str, ...] = ()


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition; `nodes` in Slurm's range syntax."""

    name: str
    nodes: str = ""
    priority_tier: int = 0
    is_up: bool = True


class NodeChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields of a node to change; unset ones stay. `state` is DRAIN, UNDRAIN, RESUME, DOWN…"""

    state: tuple[str, ...] = ()
    reason: str = ""
    comment: str | None = None
    features: tuple[str, ...] | None = None


class Slurm:
    """A Slurm cluster through its slurmrestd. Close it when done."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @classmethod
    def connect(cls, settings: SlurmSettings, *, recorder: Recorder | None = None) -> Self:
        """A client for these settings. Sends nothing yet."""
        tokens = token_source(settings)
        return cls(Transport(settings.url, tokens, version=settings.version, recorder=recorder))

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def ping(self) -> Ping:
        """Is anybody there? slurmrestd answers this without looking at the token."""
        reply = _required(await self._transport.call("ping Slurm", "GET", "ping/", wire.PingReply))
        return Ping(
            version=await self._transport.version(),
            release=reply.meta.slurm.release,
            cluster=reply.meta.slurm.cluster,
            is_up=any(ping.responding for ping in reply.pings),
        )

    async def diag(self) -> wire.Statistics:
        """Counters of slurmctld (sdiag). 2–4 ms."""
        return _required(
            await self._transport.call("read Slurm's statistics", "GET", "diag/", wire.DiagReply)
        ).statistics

    # ------------------------------------------------------------------ nodes

    async def nodes(self, *, since_s: int = 0, attempts: int = 1) -> NodesSnapshot | NotModified:
        """All nodes; NotModified when none has changed since `since_s`. 6 ms unchanged, 0.8 s per 5,000 nodes else.

        Slurm before 26.05.3 answers 500 when nodes have changed but partitions have not: then asked again without.
        """
        if since_s:
            try:
                return await self._nodes(since_s=since_s, attempts=attempts)
            except errors.Rejected:
                pass
        return await self._nodes(since_s=0, attempts=attempts)

    async def _nodes(self, *, since_s: int, attempts: int) -> NodesSnapshot | NotModified:
        params = {"update_time": since_s} if since_s else None
        reply = await self._transport.call(
            "read the nodes", "GET", "nodes/", wire.NodesReply, params=params, attempts=attempts
        )
        if reply is None:
            return NotModified()
        nodes = {node.name: node.to_core() for node in reply.nodes}
        return NodesSnapshot(nodes=nodes, last_update_s=reply.last_update.value)

    async def node(self, name: str) -> SlurmNode:
        """One node. 2–4 ms.

        Raises:
            NotFound: Slurm has no such node.
        """
        what = f"read Slurm node {name}"
        try:
            reply = _required(await self._transport.call(what, "GET", "node/{name}", wire.NodesReply, name=name))
        except errors.Rejected as error:
            # Slurm answers 200 with error number 0 for a node that it does not know.
            if error.error_number == 0 and error.http_status == 200:
                raise errors.NotFound(what, endpoint="node/{name}", http_status=200, text=error.text) from error
            raise
        found = next((node for node in reply.nodes if node.name == name), None)
        if found is None:
            raise errors.NotFound(what, endpoint="node/{name}", text="not among the nodes of the answer")
        return found.to_core()

    async def update_node(self, name: str, change: NodeChange) -> None:
        """Change a node. Idempotent.

        Raises:
            Rejected: no such transition, e.g. UNDRAIN of a node that is not drained (2028, 2180 on 26.05).
            NotFound: Slurm has no such node.
        """
        what = f"update Slurm node {name} ({_words(change)})"
        await self._transport.call(what, "POST", "node/{name}", wire.Reply, name=name, body=change)

    async def drain_node(self, name: str, reason: str) -> None:
        """No new jobs on the node; running ones go on. Replaces the reason when it is drained already."""
        await self.update_node(name, NodeChange(state=("DRAIN",), reason=reason))

    async def undrain_node(self, name: str) -> None:
        """Lift the drain and nothing else: RESUME would also bring back a node that is down.

        The reason goes too: 24.11 keeps it (and ignores an empty one), and a later drain without a reason would then
        look like the one that was lifted. The node is NOT_RESPONDING until slurmctld has pinged it, half a second.
        """
        await self.update_node(name, NodeChange(state=("UNDRAIN",), reason=" "))

    async def delete_node(self, name: str) -> None:
        """Forget a dynamic node.

        Raises:
            Busy: jobs are on it.
            NotFound: it is gone already.
        """
        what = f"delete Slurm node {name}"
        await self._transport.call(what, "DELETE", "node/{name}", wire.Reply, name=name)

    # ------------------------------------------------------------------- jobs

    async def jobs_state(self, job_ids: Iterable[JobId] = ()) -> dict[JobId, frozenset[str]]:
        """State of all jobs Slurm remembers, or of those asked for. 0.1 s for 10,000 jobs.

        An array is one entry under the id of the array with the states of all its tasks. A job that is missing from
        the answer is one that Slurm does not remember: this call knows no "not modified".
        """
        wanted = ",".join(str(job_id) for job_id in job_ids)
        params = {"job_id": wanted} if wanted else None
        try:
            reply = _required(
                await self._transport.call(
                    "read the states of jobs", "GET", "jobs/state/", wire.JobsStateReply, params=params, attempts=1
                )
            )
        except errors.NotFound:
            if wanted:
                return {}
            raise
        states: dict[JobId, frozenset[str]] = {}
        for job in reply.jobs:
            states[job.id] = states.get(job.id, frozenset()) | frozenset(job.state)
        return states

    async def job(self, job_id: JobId) -> SlurmJob:
        """One job in full. 2–4 ms.

        Raises:
            NotFound: Slurm does not remember it.
        """
        what = f"read job {job_id}"
        reply = _required(await self._transport.call(what, "GET", "job/{name}", wire.JobsReply, name=job_id))
        found = next((job for job in reply.jobs if job.job_id == job_id), None) or next(iter(reply.jobs), None)
        if found is None:
            raise errors.NotFound(what, endpoint="job/{name}", text="not among the jobs of the answer")
        return found.to_core()

    async def jobs(self) -> list[SlurmJob]:
        """All jobs in full: 10 s and 70 MB for 10,000. For the start of a leader, never for a loop."""
        reply = _required(await self._transport.call("read all jobs", "GET", "jobs/", wire.JobsReply))
        return [job.to_core() for job in reply.jobs]

    async def submit_job(self, submission: JobSubmission) -> Submitted:
        """Submit a batch job. Not idempotent, so never sent twice: after Unreachable look for its comment first.

        Raises:
            Rejected: bad partition (2000), feature (2029), account (2045)…
        """
        what = f"submit job {submission.name}{_wishes(submission)}"
        endpoint = "job/submit"
        try:
            reply = _required(
                await self._transport.call(
                    what, "POST", endpoint, wire.SubmitReply, body=submission.to_wire(), idempotent=False
                )
            )
        except errors.NotFound as error:
            hint = "it names a node that Slurm does not know"
            raise errors.Rejected(
                what,
                endpoint=endpoint,
                http_status=error.http_status,
                error_number=error.error_number,
                text=error.text,
                hint=hint,
            ) from error
        return Submitted(job_id=JobId(reply.job_id), warnings=tuple(warning.text for warning in reply.warnings))

    async def exclude_nodes(self, job_id: JobId, nodes: Iterable[str]) -> None:
        """Replace the nodes that a pending job must not use. Idempotent.

        Raises:
            AlreadyDone, NotFound, or Rejected when the job has started.
        """
        # slurmrestd takes an empty list for "no change".
        body = {"excluded_nodes": list(nodes) or [""]}
        what = f"exclude nodes from job {job_id}"
        await self._transport.call(what, "POST", "job/{name}", wire.Reply, name=job_id, body=body)

    async def signal_job(self, job_id: JobId, signal: str) -> None:
        """Send a signal such as USR1 to the batch script alone.

        Raises:
            AlreadyDone: it has ended.
            NotFound: Slurm does not remember it.
        """
        await self._kill(f"send {signal} to job {job_id}", job_id, {"signal": signal, "flags": "BATCH_JOB"})

    async def cancel_job(self, job_id: JobId) -> None:
        """End a job, pending or running.

        Raises:
            AlreadyDone: it has ended.
            NotFound: Slurm does not remember it.
        """
        await self._kill(f"cancel job {job_id}", job_id, None)

    async def _kill(self, what: str, job_id: JobId, params: dict[str, str | int] | None) -> None:
        endpoint = "job/{name}"
        reply = _required(
            await self._transport.call(what, "DELETE", endpoint, wire.KillReply, name=job_id, params=params)
        )
        for status in reply.status or ():
            number = status.error.code if isinstance(status.error.code, int) else 0
            if number or status.error.code not in (0, "", "SUCCESS"):
                raise errors.classify(
                    what, endpoint=endpoint, http_status=200, error_number=number, text=status.error.message
                )

    # ------------------------------------------------------------- partitions

    async def partitions(self) -> list[Partition]:
        """All partitions. 2–4 ms."""
        reply = _required(await self._transport.call("read the partitions", "GET", "partitions/", wire.PartitionsReply))
        return [
            Partition(
                name=partition.name,
                nodes=partition.nodes.configured,
                priority_tier=partition.priority.tier,
                is_up="UP" in partition.partition.state,
            )
            for partition in reply.partitions
        ]


def _wishes(submission: JobSubmission) -> str:
    """What of a submission Slurm may object to by name: ` (partition gpu, account chem)`."""
    wishes = {
        "partition": submission.partition,
        "account": submission.account,
        "qos": submission.qos,
        "reservation": submission.reservation,
        "constraints": submission.constraints,
        "licenses": submission.licenses,
    }
    text = ", ".join(f"{name} {value}" for name, value in wishes.items() if value)
    return f" ({text})" if text else ""


def token_source(settings: SlurmSettings) -> TokenSource:
    """Where these settings say that tokens come from."""
    if settings.jwt_key_file:
        return MintedToken(Path(settings.jwt_key_file), user=settings.user)
    return TokenFile(Path(settings.token_file))


def _required(reply: T | None) -> T:
    if reply is None:
        raise errors.Malformed("read an answer", http_status=304, text="not modified, though nothing was compared")
    return reply


def _words(change: NodeChange) -> str:
    parts = [*change.state, change.reason]
    parts += [name for name in ("comment", "features") if getattr(change, name) is not None]
    return " ".join(part for part in parts if part)

"""What the scheduler asks of Slurm about jobs, beyond single requests: polling, search by comment, causes of ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

import cachetools
import structlog

from sunkpy.core.gang import ends
from sunkpy.core.gang.ends import EndCause
from sunkpy.core.gang.identity import parse_comment
from sunkpy.core.gang.request import JobRequest
from sunkpy.core.model import hostlist
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.scheduler.ledger import GangEntry, JobEntry, Ledger
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.slurm import JobSubmission, Slurm
from sunkpy.slurm.errors import NotFound, SlurmError

_DETAILS_PER_POLL = 50
_DETAILS_IN_FLIGHT = 8
_FIRST_REASON_S = 2.0
_REASON_EACH_S = 5.0
_CAUSE_WITHIN_S = 5.0  # an overloaded Slurm answers late, and nothing may start on the node meanwhile
_NAMED_S = 300.0


class JobPoller:
    """Reads the states of all jobs each second while there is a job of ours, and tells the ledger."""

    def __init__(
        self,
        slurm: Slurm,
        ledger: Ledger,
        metrics: SchedulerMetrics,
        *,
        poll_s: float,
        on_change: Callable[[GangEntry], None],
    ) -> None:
        self._slurm = slurm
        self._ledger = ledger
        self._poll_s = poll_s
        self._on_change = on_change
        self._log = structlog.get_logger("jobs")
        self._read_at = time.monotonic()
        self.problem: str | None = None
        metrics.poll_age_seconds.set_function(lambda: time.monotonic() - self._read_at)

    async def run(self) -> None:
        """Poll until cancelled. What cannot be read changes nothing."""
        while True:
            try:
                if any(entry.jobs for entry in self._ledger):
                    await self.poll()
                self._recovered()
            except SlurmError as error:
                self._failed(error)
            await asyncio.sleep(self._poll_s)

    async def poll(self) -> None:
        """One reading of all states, and of the jobs of which more must be known."""
        asked_at = time.monotonic()
        states = await self._slurm.jobs_state()
        self._read_at = asked_at
        for entry in self._ledger.observe(states, asked_at=asked_at):
            self._on_change(entry)
        wanted = [
            (entry, job) for entry in self._ledger for job in entry.jobs.values() if _needs_details(job, asked_at)
        ]
        limit = asyncio.Semaphore(_DETAILS_IN_FLIGHT)
        oldest_first = sorted(wanted, key=lambda pair: pair[1].read_at)[:_DETAILS_PER_POLL]
        async with asyncio.TaskGroup() as group:
            for entry, job in oldest_first:
                group.create_task(self._read(entry, job, limit))

    async def _read(self, entry: GangEntry, job: JobEntry, limit: asyncio.Semaphore) -> None:
        asked_at = job.read_at = time.monotonic()
        try:
            async with limit:
                found = await self._slurm.job(job.id)
        except SlurmError as error:
            self._log.debug("job not read", job=job.id, error=str(error))
            return
        gang = parse_comment(found.comment)
        if gang is None or gang.uid != entry.uid:
            return  # another job under an id that Slurm has used before
        if job.read(found, nodes=tuple(hostlist.expand(found.nodes)), at=asked_at):
            self._on_change(entry)

    def _recovered(self) -> None:
        if self.problem is not None:
            self._log.info("the states of jobs can be read again")
        self.problem = None

    def _failed(self, error: SlurmError) -> None:
        if self.problem is None:
            self._log.warning("the states of jobs cannot be read: nothing follows from that", error=str(error))
        self.problem = str(error)


def _needs_details(job: JobEntry, now: float) -> bool:
    """Why it waits, now and then; where it runs, once, when no prolog has told; whose it is, when it came back."""
    if job.reappeared:
        return now - job.read_at >= _REASON_EACH_S
    if "PENDING" in job.state:
        return now >= max(job.known_at + _FIRST_REASON_S, job.read_at + _REASON_EACH_S)
    return "RUNNING" in job.state and not job.nodes and not job.prologs


class JobSearch:
    """Finds jobs by the gang in their comment. One full read serves all who ask about the same time."""

    def __init__(self, slurm: Slurm, *, user: str) -> None:
        self._slurm = slurm
        self._user = user
        self._lock = asyncio.Lock()
        self._read_at = float("-inf")
        self._jobs: dict[str, list[SlurmJob]] = {}

    async def find(self, uid: str, *, sent_after: float) -> list[SlurmJob]:
        """The jobs of a gang in a reading that was sent after that moment (monotonic).

        Raises:
            SlurmError: Slurm could not be read: nothing is known.
        """
        return (await self.all(sent_after=sent_after)).get(uid, [])

    async def all(self, *, sent_after: float) -> dict[str, list[SlurmJob]]:
        """All jobs of ours by the uid of their gang."""
        async with self._lock:
            if self._read_at <= sent_after:
                sent_at = time.monotonic()
                self._jobs = self._by_uid(await self._slurm.jobs())
                self._read_at = sent_at
            return self._jobs

    def _by_uid(self, jobs: Iterable[SlurmJob]) -> dict[str, list[SlurmJob]]:
        found: dict[str, list[SlurmJob]] = {}
        for job in jobs:
            gang = parse_comment(job.comment) if job.user == self._user else None
            if gang is not None:
                found.setdefault(gang.uid, []).append(job)
        return found


class EndCauses:
    """Finds out why jobs ended. Remembers for a while which job was named for which nodes."""

    def __init__(self, slurm: Slurm) -> None:
        self._slurm = slurm
        self._named: cachetools.TTLCache[JobId, frozenset[str]] = cachetools.TTLCache(maxsize=1024, ttl=_NAMED_S)

    async def of(self, job: JobId, *, node: str) -> EndCause:
        """Why a job ended and, when it was preempted, by whom. Takes seconds at most; less is known then."""
        state: frozenset[str] = frozenset()
        try:
            async with asyncio.timeout(_CAUSE_WITHIN_S):
                state = (await self._slurm.job(job)).state
                preemptor = await self._preemptor(node) if "PREEMPTED" in state else None
                return ends.cause_of_end(job, state, preemptor)
        except (SlurmError, TimeoutError):
            return ends.cause_of_end(job, state)

    async def _preemptor(self, node: str) -> SlurmJob | None:
        limit = asyncio.Semaphore(_DETAILS_IN_FLIGHT)

        async def read(job: JobId) -> SlurmJob | None:
            async with limit:
                try:
                    return await self._slurm.job(job)
                except NotFound:
                    return None

        states, partitions = await asyncio.gather(self._slurm.jobs_state(), self._slurm.partitions())
        found = await asyncio.gather(*(read(job) for job in ends.pending_to_look_at(states)))
        tiers = {p.name: p.priority_tier for p in partitions if node in hostlist.expand(p.nodes)}
        if not tiers:  # a partition may list its nodes as ALL or by a NodeSet
            tiers = {p.name: p.priority_tier for p in partitions}
        preemptor = ends.choose_preemptor(
            [job for job in found if job is not None], node=node, tiers=tiers, named=self._named
        )
        if preemptor is not None:
            self._named[preemptor.id] = self._named.get(preemptor.id, frozenset()) | {node}
        return preemptor


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
        nodes=request.nodes,
        tasks=request.nodes,
        cpus_per_task=request.cpus_per_node,
        memory_mib_per_node=request.memory_mib_per_node,
        tres_per_node=request.gres_per_node,
        time_limit_minutes=request.time_limit_min,
        shared=options.shared,
        excluded_nodes=request.excluded_nodes,
        required_nodes=request.required_nodes,
    )

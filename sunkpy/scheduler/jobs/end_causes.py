"""Finds out why jobs ended, and for preempted jobs which job (the preemptor) took their nodes.

Pods are evicted at once, with the cause that is known at that time, because their node is needed. The preemptors are
searched for afterwards, in one search for all pods that were evicted meanwhile. So a job that preempts many others is
looked up only once.

A search costs slurmrestd a few requests, however many jobs were preempted and however many wait: it uses the states
that the next poll reads, and details of the scheduler's own jobs, which are known already. Slurm is asked for the end
time of a preempted job only if a candidate had begun before a poll showed that job as preempted. The caller decides how
often a search may begin (`scheduler.pods.evict`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import cachetools
import msgspec

from sunkpy.core.gang.job import ends
from sunkpy.core.gang.job.ends import EndCause
from sunkpy.core.model.hostlist import BadHostlist, expand
from sunkpy.core.model.states import JobId, JobStates, SlurmJob
from sunkpy.slurm import Partition, Slurm
from sunkpy.slurm.errors import NotFound, SlurmError, UnreadableJob

_IN_FLIGHT = 4
_NAMED_WITHIN_S = 10.0
_POLLED_WITHIN_S = 2.0
_PARTITIONS_S = 60.0
_NAMED_S = 300.0
_REMEMBERED = 4096


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that may have preempted a certain job, noted when a poll first showed that job as preempted. `waiting`:
    jobs that were pending in this poll. `begun`: jobs that had started since the poll before.
    """

    waiting: Sequence[JobId] = ()
    begun: Sequence[JobId] = ()


class EndCauses:
    """Finds why jobs ended, and which job (the preemptor) took the nodes of a preempted one. It remembers for a while
    which preemptor it has named for which nodes: a job that was named for all its nodes has preempted no further job.

    When a job is first seen as preempted, it also remembers which jobs wait or have just begun: the preemptor may begin
    or even end before Slurm is asked about it. `known` returns the details of a job of the scheduler's own; None if it
    was not read. `hurry` makes the next poll come at once, because the preemptor waits only until the evicted pods have
    left.
    """

    def __init__(
        self,
        slurm: Slurm,
        *,
        known: Callable[[JobId], SlurmJob | None] = lambda _: None,
        hurry: Callable[[], None] = lambda: None,
    ) -> None:
        self._slurm = slurm
        self._known = known
        self._hurry = hurry
        self._polled = asyncio.Event()
        self._partitions: cachetools.TTLCache[str, Sequence[Partition]] = cachetools.TTLCache(1, ttl=_PARTITIONS_S)
        self._before: JobStates = {}
        self._states: JobStates = {}
        self._newest: _Seen | None = None
        self._unseen: cachetools.TTLCache[JobId, None] = cachetools.TTLCache(_REMEMBERED, ttl=_NAMED_S)
        self._seen: cachetools.TTLCache[JobId, _Seen] = cachetools.TTLCache(_REMEMBERED, ttl=_NAMED_S)
        self._limit = asyncio.Semaphore(_IN_FLIGHT)
        self._named: cachetools.TTLCache[JobId, frozenset[str]] = cachetools.TTLCache(maxsize=1024, ttl=_NAMED_S)

    def saw(self, states: JobStates) -> None:
        """Remember the states of all jobs, which a poll has just read."""
        self._before, self._states, self._newest = self._states, states, None
        self._note_seen(self._unseen)
        self._polled.set()
        self._polled = asyncio.Event()

    def of(self, job: JobId, *, known: frozenset[str]) -> EndCause:
        """Return why a job ended, judged by its last known state, `known`. The cause does not name yet which job
        preempted it.
        """
        cause = ends.cause_of_end(job, known)
        if cause.is_preemption and job not in self._seen:
            is_new = job not in self._unseen
            self._unseen[job] = None
            self._note_seen([job])
            if is_new and job in self._unseen:
                self._hurry()
        return cause

    def _note_seen(self, jobs: Iterable[JobId]) -> None:
        """For each of these jobs that the newest states show as preempted: remember which jobs wait now and which have
        begun since the states before. One of them may be the preemptor.
        """
        shown = [job for job in jobs if ends.cause_of_end(job, self._states.get(job, frozenset())).is_preemption]
        if shown:
            # Once for each answer, because it walks over all jobs.
            self._newest = self._newest or _Seen(
                waiting=ends.pending_candidates(self._states, self._is_known),
                begun=ends.begun_between(self._before, self._states, self._is_known),
            )
            for job in shown:
                self._seen[job] = self._newest
                self._unseen.pop(job, None)

    async def next_states(self, preempted: Callable[[], Iterable[JobId]]) -> JobStates:
        """Return the states of all jobs, by job, as the next poll reads them. If no poll comes soon, Slurm is asked;
        the answer is empty if that fails. `preempted`: returns the jobs for which the states are needed; the states
        should show all these jobs as preempted.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLLED_WITHIN_S):
                await self._polled.wait()
                if any(job in self._unseen for job in preempted()):  # an answer that is on its way may be older
                    await self._polled.wait()
            return self._states
        try:
            self.saw(await self._slurm.jobs_state())
        except SlurmError:
            return {}
        return self._states

    async def by_whom(self, preempted: Mapping[JobId, str], states: JobStates) -> dict[JobId, SlurmJob]:
        """Return, for each of these preempted jobs, the job that took its node. A job for which this is not found
        within seconds is left out.

        Args:
            preempted: the jobs, each with a node that the job lost.
            states: the current states of all jobs.
        """
        found: dict[JobId, SlurmJob] = {}
        try:
            async with asyncio.timeout(_NAMED_WITHIN_S):
                partitions = await self._read_partitions()
                seen = {job: self._seen.get(job, _Seen()) for job in preempted}
                waited = {id for each in seen.values() for id in (*each.waiting, *each.begun)}
                begun = ends.begun_candidates(states, waited, self._is_known)
                pending = ends.pending_candidates(states, self._is_known)
                details = await self._details([*begun, *pending])
                unknown = ends.newest_first((job for job in preempted if not self._is_known(job)), self._is_known)
                own = await self._details([*filter(self._is_known, preempted), *unknown])
                early = {(id, node) for id in begun if id in details for node in details[id].nodes}
                unsure = [job for job in own if any((id, preempted[job]) in early for id in seen[job].begun)]
                own |= await self._details(ends.newest_first(unsure, self._is_known), read=self._ask)
                for job in own:
                    preemptor = self._choose(details.values(), own[job], preempted[job], partitions, seen[job].waiting)
                    found |= {job: preemptor} if preemptor is not None else {}
        except (SlurmError, TimeoutError):
            pass
        return found

    def _is_known(self, job: JobId) -> bool:
        return self._known(job) is not None

    async def _read_partitions(self) -> Sequence[Partition]:
        if "all" not in self._partitions:
            self._partitions["all"] = await self._slurm.partitions()
        return self._partitions["all"]

    async def _details(
        self, jobs: Iterable[JobId], read: Callable[[JobId], Awaitable[SlurmJob | None]] | None = None
    ) -> dict[JobId, SlurmJob]:
        ids = tuple(dict.fromkeys(jobs))
        found = await asyncio.gather(*map(read or self._read, ids))
        return {id: job for id, job in zip(ids, found, strict=True) if job is not None}

    async def _read(self, job: JobId) -> SlurmJob | None:
        known = self._known(job)
        return known if known is not None else await self._ask(job)

    async def _ask(self, job: JobId) -> SlurmJob | None:
        async with self._limit:
            try:
                return await self._slurm.job(job)
            except (NotFound, UnreadableJob):
                return None

    def _choose(
        self,
        jobs: Iterable[SlurmJob],
        preempted: SlurmJob,
        node: str,
        partitions: Sequence[Partition],
        waited: Sequence[JobId],
    ) -> SlurmJob | None:
        tiers = _tiers(partitions, node)
        preemptor = ends.choose_preemptor(
            jobs, node=node, preempted=preempted, waited=waited, tiers=tiers, named=self._named
        )
        if preemptor is not None:
            self._named[preemptor.id] = self._named.get(preemptor.id, frozenset()) | {node}
        return preemptor


def _tiers(partitions: Sequence[Partition], node: str) -> dict[str, int]:
    """Return the priority tier of each partition whose list of nodes names this node. If no partition names it, return
    the tiers of all partitions: they may have the node by the word ALL or by a Slurm NodeSet.
    """
    own = {p.name: p.priority_tier for p in partitions if _has(p, node)}
    return own or {p.name: p.priority_tier for p in partitions}


def _has(partition: Partition, node: str) -> bool:
    try:
        return node in expand(partition.nodes)
    except BadHostlist:
        return False

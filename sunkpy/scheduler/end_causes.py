"""Asks Slurm why a job ended and, when it was preempted, which job took its place."""

from __future__ import annotations

import asyncio

import cachetools

from sunkpy.core.gang import ends
from sunkpy.core.gang.ends import EndCause
from sunkpy.core.model import hostlist
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import NotFound, SlurmError

_IN_FLIGHT = 8
_WITHIN_S = 5.0  # an overloaded Slurm answers late, and nothing may start on the node meanwhile
_NAMED_S = 300.0


class EndCauses:
    """Remembers for a while which job was named for which nodes: a job that has all its nodes preempts no more."""

    def __init__(self, slurm: Slurm) -> None:
        self._slurm = slurm
        self._named: cachetools.TTLCache[JobId, frozenset[str]] = cachetools.TTLCache(maxsize=1024, ttl=_NAMED_S)

    async def of(self, job: JobId, *, node: str) -> EndCause:
        """Why a job ended and, when it was preempted, by whom. Takes seconds at most; less is known then."""
        state: frozenset[str] = frozenset()
        try:
            async with asyncio.timeout(_WITHIN_S):
                ended = await self._slurm.job(job)
                state = ended.state
                preemptor = await self._preemptor(ended, node) if "PREEMPTED" in state else None
                return ends.cause_of_end(job, state, preemptor)
        except (SlurmError, TimeoutError):
            return ends.cause_of_end(job, state)

    async def _preemptor(self, preempted: SlurmJob, node: str) -> SlurmJob | None:
        limit = asyncio.Semaphore(_IN_FLIGHT)

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
            [job for job in found if job is not None], node=node, preempted=preempted, tiers=tiers, named=self._named
        )
        if preemptor is not None:
            self._named[preemptor.id] = self._named.get(preemptor.id, frozenset()) | {node}
        return preemptor

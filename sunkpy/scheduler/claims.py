"""Is what a node says of a job true? Slurm is asked once for each job and node, before anything follows from a call.

The job must be proved to stand for a gang (`sunkpy.core.gang.identity.gang_of`), and have that node.
"""

from __future__ import annotations

from collections.abc import Callable

from sunkpy.core.gang.identity import gang_of, is_anothers, parse_comment
from sunkpy.core.model import hostlist
from sunkpy.core.model.states import SlurmJob
from sunkpy.scheduler.calls import Forgotten, HookCall, NotThere
from sunkpy.scheduler.entries import GangEntry, JobEntry
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.shared_reads import SharedReads
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import NotFound


class Claims:
    """What calls say, checked against Slurm. `user` is the scheduler's own Slurm user."""

    def __init__(self, *, slurm: Slurm, user: str, ledger: Ledger, clock: Callable[[], float]) -> None:
        self._reads = SharedReads(slurm, clock=clock)
        self._user = user
        self._ledger = ledger
        self._clock = clock

    async def of(self, call: HookCall) -> tuple[GangEntry, JobEntry] | None:
        """The gang and the job that a call is about; None when it is not the job of a pod.

        Raises:
            Forgotten: neither Slurm nor the ledger knows that job, or its number is another job's now.
            NotThere: Slurm has not given that job to that node.
            SlurmError: Slurm could not be asked.
        """
        meant = parse_comment(call.gang)
        entry = self._ledger.by_job(call.job_id)
        known = entry.jobs.get(call.job_id) if entry is not None else None
        is_meant = entry is not None and meant in (None, entry.id)
        if entry is not None and known is not None and is_meant and call.node in known.proved:
            return entry, known
        try:
            job, asked_at = await self._reads.job(call.job_id)
        except NotFound:
            # What it said of its nodes before it was forgotten still holds.
            if entry is not None and known is not None and is_meant and call.node in known.nodes:
                return entry, known
            raise Forgotten from None
        gang = gang_of(job, scheduler=self._user)
        if gang is None and meant in (None, parse_comment(job.comment)):
            return None  # at most it looks like one
        if gang is None or meant not in (None, gang):
            raise Forgotten
        nodes = tuple(hostlist.expand(job.nodes))
        if call.node not in nodes:
            raise NotThere(f"Slurm has not given job {job.id} to {call.node}: it is {_where(job)}")
        entry = self._ledger.ensure(gang)
        own = self._ledger.take_job(entry, job, asked_at=asked_at)
        own.proved.add(call.node)
        return entry, own

    async def still_runs(self, entry: GangEntry, job: JobEntry) -> bool:
        """Slurm itself says now that the job has not lost its nodes.

        Raises:
            Forgotten: it does not know a job of which it never said that it ended: then it orders nodes to end it.
            SlurmError: Slurm could not be asked.
        """
        try:
            found = await self.read_again(entry, job)
        except NotFound as error:
            if job.view(self._clock()).is_over:
                return False
            raise Forgotten from error
        return found.is_running

    async def read_again(self, entry: GangEntry, job: JobEntry) -> SlurmJob:
        """A job of the gang as it is now; the ledger learns it.

        Raises:
            NotFound: Slurm does not know it, or its number is another job's now.
            SlurmError: it could not be asked.
        """
        found, asked_at = await self._reads.job(job.id)
        if is_anothers(found, entry.id, scheduler=self._user):
            raise NotFound(f"read job {job.id} of {entry.id}", text="its number is another job's now")
        job.read(found, nodes=tuple(hostlist.expand(found.nodes)), at=max(asked_at, job.known_at))
        return found


def _where(job: SlurmJob) -> str:
    return f"{'+'.join(sorted(job.state))} on {job.nodes}" if job.nodes else "on no node"

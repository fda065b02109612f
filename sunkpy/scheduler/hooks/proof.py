"""Checks with Slurm what a Prolog or Epilog says about a job. Before that, its call has no effect.

Slurm must say that the job stands for a gang (`sunkpy.core.gang.identity.gang_of`) and has the node that calls.
"""

from __future__ import annotations

from sunkpy.core.gang.identity import gang_of, is_anothers, parse_comment
from sunkpy.core.gang.job.job import Job
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.runtime.fresh_answer import FreshAnswers
from sunkpy.scheduler.hooks.messages import FORGOTTEN, NOT_OURS, HookAnswer, HookCall, NotThere
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.record import GangRecord
from sunkpy.slurm.errors import NotFound


class HookProof:
    """Checks with Slurm to which gang the job of a Prolog or Epilog belongs, and whether the job has the node that
    calls.
    """

    def __init__(self, leader: Leader) -> None:
        self._reads = FreshAnswers(leader.slurm.job, clock=leader.clock)
        self._user = leader.settings.slurm.user
        self._ledger = leader.ledger

    async def of(self, call: HookCall) -> tuple[GangRecord, Job] | HookAnswer:
        """Return the record of the gang and the job that a call of a Prolog or Epilog is about. If the job belongs to
        no gang, or Slurm does not know it or has given its ID to another job, return the answer to the call instead.

        Raises:
            NotThere: Slurm has not given the job to the node that calls.
            SlurmError: Slurm could not be asked.
        """
        meant = parse_comment(call.gang)
        record = self._ledger.by_job(call.job_id)
        known = record.jobs.get(call.job_id) if record is not None else None
        is_meant = record is not None and meant in (None, record.id)
        if record is not None and known is not None and is_meant and call.node in known.nodes:
            return record, known
        try:
            job, asked_at = await self._reads.get(call.job_id)
        except NotFound:
            return FORGOTTEN
        gang = gang_of(job, scheduler=self._user)
        if gang is None and meant in (None, parse_comment(job.comment)):
            return NOT_OURS  # even if its comment looks like a gang's
        if gang is None or meant not in (None, gang):
            return FORGOTTEN
        if call.node not in job.nodes:
            raise NotThere(f"Slurm has not given job {job.id} to {call.node}: the job is {_where(job)}")
        record = self._ledger.ensure(gang)
        self._ledger.take_job(record, job, asked_at=asked_at)
        return record, record.jobs[job.id]

    async def read_again(self, record: GangRecord, id: JobId) -> SlurmJob:
        """Read a job of the gang from Slurm again, record what Slurm says, and return it.

        Raises:
            NotFound: Slurm does not know the job, or has given its ID to another job.
            SlurmError: Slurm could not be asked.
        """
        found, asked_at = await self._reads.get(id)
        if is_anothers(found, record.id, scheduler=self._user):
            raise NotFound(f"read job {id} of {record.id}", text="its id is another job's")
        self._ledger.change_job(record, id, lambda job: job.read(found, at=max(asked_at, job.known_at)))
        return found


def _where(job: SlurmJob) -> str:
    return f"{'+'.join(sorted(job.state))} on {','.join(job.nodes)}" if job.nodes else "on no node"

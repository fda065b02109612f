"""Asks Slurm which jobs are on a node that a rolling update waits for, and whether all of them are services: jobs that
stand only for pods.

The jobs of a few nodes at a time are read one by one, up to the first job that is no service. So an update that waits
for batch jobs costs one request a minute for each node, less in clusters above 1,200 nodes.
"""

from __future__ import annotations

import asyncio

from sunkpy.core.mirror import ServiceQuestion, are_services_alone, is_service
from sunkpy.core.model.states import SlurmJob
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import NotFound, Unreachable

_NODES_AT_ONCE = 2


class ServiceCheck:
    """Asks Slurm whether the jobs on a node stand only for pods. `scheduler_user`: the Slurm user of the scheduler.

    Until the answer, at most `timeout_s`, the syncer decides nothing else about the node, not even to withdraw the note
    that it is drained and idle.
    """

    def __init__(self, slurm: Slurm, *, scheduler_user: str, timeout_s: float) -> None:
        self._slurm = slurm
        self._user = scheduler_user
        self._timeout_s = timeout_s
        self._asking = asyncio.Semaphore(_NODES_AT_ONCE)

    async def ask(self, question: ServiceQuestion) -> bool:
        """Ask Slurm about these jobs. Return True if each of them stands only for pods, without a process of Slurm on
        the node, and if they together hold all that Slurm has allocated there.

        Raises:
            SlurmError: Slurm did not answer; ask again later.
        """
        try:
            async with asyncio.timeout(self._timeout_s), self._asking:
                found = await self._services(question)
        except TimeoutError as error:
            what = f"read the jobs of node {question.node}"
            raise Unreachable(what, text=f"not answered within {self._timeout_s:.0f} s") from error
        return are_services_alone(question, found, scheduler=self._user)

    async def _services(self, question: ServiceQuestion) -> list[SlurmJob]:
        """Read the jobs in the question one by one, and return those before the first that is no service or is gone. A
        service is a job that stands only for pods.
        """
        found: list[SlurmJob] = []
        for job_id in question.jobs:
            try:
                job = await self._slurm.job(job_id)
            except NotFound:
                break
            if not is_service(job, scheduler=self._user):
                break
            found.append(job)
        return found

"""What a new leader finds: the jobs of all gangs, and under which of them each pod was bound.

Until this is done nothing is submitted or told to anybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import structlog

from sunkpy.core import names
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.view import is_over
from sunkpy.core.model import hostlist
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import SlurmJob
from sunkpy.scheduler.cluster import Cluster
from sunkpy.scheduler.job_search import JobSearch
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.members import MemberIndex
from sunkpy.slurm.errors import SlurmError

_AGAIN_S = 1.0

Jobs = Mapping[GangId, Sequence[SlurmJob]]


class Adoption:
    """Fills the ledger of a new leader."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        members: MemberIndex,
        ledger: Ledger,
        search: JobSearch,
        clock: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._members = members
        self._ledger = ledger
        self._search = search
        self._clock = clock
        self._log = structlog.get_logger("leader")

    async def run(self) -> None:
        """Take over what is there; waits for Slurm as long as it must."""
        jobs = await self._all_jobs()
        self._members.note_extras(jobs)
        self._note(jobs)
        bound = [pod for pod in self._cluster.pods.values() if pod.spec.node_name]
        await self._members.wait_for_owners()
        for pod in bound:
            id = self._members.find_id(pod) or self._by_comment(pod, jobs)
            if id is not None and (not is_over(pod) or id in jobs):
                self._adopt_bound(pod, id, jobs)
        self._log.info("adopted", gangs=len(self._ledger), pods=len(self._cluster.pods))

    async def sweep(self, *, each_s: float, found: Callable[[GangId], None]) -> None:
        """Now and then look for placeholder jobs that nobody knows: left by a leader that died, or made by a late
        submit. No poll and no hook tells of them.
        """
        while True:
            await asyncio.sleep(each_s)
            try:
                jobs = await self._search.all(sent_after=self._clock())
            except SlurmError as error:
                self._log.warning("sweep put off", error=str(error))
                continue
            for id in self._note({id: jobs[id] for id in jobs if not self._is_known(id, jobs[id])}):
                found(id)

    def _is_known(self, id: GangId, jobs: Sequence[SlurmJob]) -> bool:
        entry = self._ledger.get(id)
        return entry is not None and all(job.id in entry.jobs or job.is_ended for job in jobs)

    def _note(self, jobs: Jobs) -> list[GangId]:
        """Make the live ones known; their gangs."""
        noted = []
        for id, found in jobs.items():
            live = [job for job in found if not job.is_ended or job.is_completing]
            if live:
                entry = self._ledger.ensure(id)
                for job in live:
                    self._ledger.adopt_job(entry, job)
                noted.append(id)
        return noted

    async def _all_jobs(self) -> Jobs:
        asked_at = self._clock()
        while True:
            try:
                return await self._search.all(sent_after=asked_at)
            except SlurmError as error:
                self._log.warning("jobs cannot be read: waiting", error=error.message)
                await asyncio.sleep(_AGAIN_S)

    def _by_comment(self, pod: Pod, jobs: Jobs) -> GangId | None:
        """The gang of a pod above which something could not be read, proved by the job that has its node.

        A pod of another namespace cannot get under the job by writing its id.
        """
        noted = pod.annotations.get(names.ANNOTATION_JOB_ID, "")
        node = self._cluster.slurm_node_on(pod.spec.node_name)
        for id, found in jobs.items():
            if id.namespace == pod.metadata.namespace and any(
                str(job.id) == noted and node in hostlist.expand(job.nodes) for job in found
            ):
                self._log.warning("gang known by its job alone", pod="/".join(pod.key), gang=str(id))
                self._members.adopt(pod, id)
                return id
        return None

    def _adopt_bound(self, pod: Pod, id: GangId, jobs: Jobs) -> None:
        """Under which job was this pod bound? Its annotation tells, but only the job itself proves it.

        Anybody who may edit the pod can write another job's id there.
        """
        noted = pod.annotations.get(names.ANNOTATION_JOB_ID, "")
        entry = self._ledger.ensure(id)
        entry.member(pod)
        own = sorted(jobs.get(id, ()), key=lambda job: (str(job.id) == noted, job.is_running, job.id))
        if own:
            entry.bound_to = own[-1].id
            self._ledger.adopt_job(entry, own[-1])

"""Finds, for a new leader, the jobs under which pods of an earlier leader run, and jobs that no pod notes.

1. The binding notes of all pods are read, also of pods that come later (`read_notes`).
2. Slurm is asked for each job by itself: first for jobs whose hooks call, then for jobs in notes, then for all others.
   When all jobs in the notes of a gang are known, hooks and passes of this gang go on.
3. When all jobs are known (`Ledger.all_jobs_known`), submits go on, and gangs with a pod on a node without a right
note.
   Before that, a gang may have a job that no pod notes, so `collect` lets no gang submit.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable

import structlog

from sunkpy.core.gang.identity import GangId, noted_job
from sunkpy.core.gang.job.job import recall
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId, SlurmJob, holds_something
from sunkpy.runtime.queue import Urgency
from sunkpy.runtime.turns import in_turns
from sunkpy.scheduler.jobs.search import AGAIN_S, NOBODY, JobSearch
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.nodes.cluster import Cluster
from sunkpy.scheduler.pods.by_note import PodsByNote, is_noted_on
from sunkpy.scheduler.pods.gangs import Gangs
from sunkpy.scheduler.pods.index import PodsByGang
from sunkpy.scheduler.record import GangRecord
from sunkpy.slurm.errors import SlurmError


class Takeover:
    """Fills the ledger of a new leader with the gangs and jobs of earlier leaders."""

    def __init__(self, leader: Leader, cluster: Cluster, members: PodsByGang, gangs: Gangs) -> None:
        self._leader = leader
        self._ledger = leader.ledger
        self._cluster = cluster
        self._members = members
        self._gangs = gangs
        self.jobs = JobSearch(leader, learned=self._learned)
        self._pods = PodsByNote(leader.ledger, cluster, members)
        self._settled: set[JobId] = set()
        self._log = structlog.get_logger("leader")

    async def run(self) -> None:
        """Find all jobs of gangs, then search now and then for jobs that the ledger lacks, until cancelled.

        A leader that died left such a job, or a late submit made it; polls do not show whose it is.
        """
        began_at = self._leader.clock()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.jobs.run())
            await self._find_all(sent_after=began_at)
            await self._open_submits()
            while True:
                await asyncio.sleep(self._leader.settings.sweep_seconds)
                await self._find_all(sent_after=self._leader.clock())

    async def _find_all(self, *, sent_after: float) -> None:
        """Read all jobs that the ledger lacks; try again until Slurm can be read."""
        log = self._log.warning
        while True:
            try:
                return await self.jobs.all(sent_after=sent_after)
            except SlurmError as error:
                log("not all jobs can be read: tried again until they can", error=str(error))
                log = self._log.debug
                await asyncio.sleep(AGAIN_S)

    # -------------------------------------------------- 1. the notes of pods

    async def read_notes(self) -> None:
        """Read the binding notes of all pods, and from now on of each pod that comes."""
        self._cluster.pods.add_handler(self._read_note)
        async for pod in in_turns(tuple(self._cluster.pods.values())):
            self._read_note(None, pod)
        gc.freeze()  # else each garbage collection would walk these objects, and hold the event loop

    def _read_note(self, old: Pod | None, new: Pod | None) -> None:
        """Have the job in a new pod's note read, if the ledger does not know it: an earlier leader bound that pod."""
        if new is None or (old is not None and old.uid == new.uid) or (job := noted_job(new)) is None:
            return
        id = self._members.find_id(new)
        record = self._ledger.get(id)
        if id is None or (record is not None and job not in record.jobs and self.jobs.whose.get(job) != id):
            self._pods.add(new, job)
            self.jobs.ask_about(job)

    # ------------------------------------------------------ 2. what jobs say

    def _learned(self, id: JobId, job: SlurmJob | None, asked_at: float, has_nodes: bool) -> None:
        """Put a job that was read, and the pods that note it, into its gang. An ended job counts if it left pods on
        nodes.
        """
        gang = self.jobs.whose[id]
        if job is None:
            self._pods.settle_forgotten(id)
        elif gang is not None and gang != NOBODY:
            noting = self._pods.noting(id)
            if noting or not self._ledger.all_jobs_known:
                self._pods.settle(id, gang, job.nodes)
            is_noted = any(is_noted_on(pod, id) for pod in self._members.pods_of(gang))
            if holds_something(job.state) or is_noted:
                record = self._ledger.ensure(gang)
                self._ledger.take_job(record, job, asked_at=asked_at)
                self._ledger.change_job(record, id, lambda known: recall(known, noting))
                self._looked_at(gang)
        for each in self._pods.done(id) - {gang} if has_nodes else ():
            self._looked_at(each)

    def _looked_at(self, id: GangId) -> None:
        record = self._ledger.get(id)
        if record is not None:
            self._find_own_job(record)
            self._ledger.queue.add(id)
            record.fire()

    def _find_own_job(self, record: GangRecord) -> None:
        """Set the job under which the gang's pods were bound: the job in their notes, if it is the gang's; else a job
        that has started.

        A job that waits and that no pod notes is a replacement for the lost job of these pods.
        """
        bound = [pod for pod in self._members.pods_of(record.id) if pod.spec.node_name]
        noted = {noted_job(pod) for pod in bound}
        own = [job for job in record.jobs.values() if job.id in noted or job.has_started]
        if bound and own and record.bound_to is None:
            record.bound_to = max(own, key=lambda job: (job.id in noted, job.is_live, job.id)).id

    def hurry(self, record: GangRecord) -> None:
        """Have the jobs of a gang's notes read first, and use what is known of it, because a hook waits for an
        answer.
        """
        if self._ledger.all_jobs_known:
            return
        for job in tuple(record.jobs.values()):
            if job.nodes and job.id not in self._settled:  # once, although the hooks of all its nodes call
                self._settled.add(job.id)
                self._pods.settle(job.id, record.id, job.nodes)
        for pod in self._members.pods_of(record.id):
            noted = noted_job(pod)
            if noted is not None and not self._is_known(noted):
                self.jobs.ask_about(noted, urgency=Urgency.FIRST)

    # --------------------------------------------------- 3. all jobs are known

    async def _open_submits(self) -> None:
        """Note that all jobs are known: submits go on, and gangs whose pods had no right note."""
        self._ledger.all_jobs_known = True
        async for record in in_turns(self._ledger):
            if record.bound_to is None or self._why_unproved(record) is not None:
                self._find_own_job(record)
                self._ledger.queue.add(record.id)
            record.fire()
        self._settled.clear()
        gc.freeze()
        self._log.info("adopted", gangs=len(self._ledger), pods=len(self._cluster.pods))

    # ------------------------------------------------ what may go on until then

    def why_unknown(self, record: GangRecord) -> str | None:
        """Return why nothing may be decided or answered about a gang yet; None if its jobs are known."""
        return None if self._ledger.all_jobs_known else self._why_unproved(record)

    def _why_unproved(self, record: GangRecord) -> str | None:
        """Return the same as `why_unknown`, while there may be jobs that the ledger lacks."""
        pods = self._members.pods_of(record.id)
        if any((job := noted_job(pod)) is not None and not self._is_known(job) for pod in pods):
            return "the job that is noted on its pods is being read"
        bound = [pod for pod in pods if pod.spec.node_name]
        if not bound or self._is_proved(record.id, bound):
            return None
        gang = self._gangs.of(record).gang
        return None if gang is not None and gang.never_queues else "the jobs that nobody has noted are being read"

    def _is_known(self, job: JobId) -> bool:
        """True if the gang of a job is known, also after the ledger has forgotten the job because it ended."""
        if job not in self.jobs.whose and (record := self._ledger.by_job(job)) is not None:
            self.jobs.whose[job] = record.id
        return job in self.jobs.whose

    def _is_proved(self, id: GangId, bound: Iterable[Pod]) -> bool:
        """True if a job in the notes of these pods belongs to the gang, and Slurm has forgotten all other noted
        jobs.
        """
        jobs = {noted_job(pod) for pod in bound}
        whose = {NOBODY if job is None else self.jobs.whose.get(job) for job in jobs}
        return id in whose and whose <= {id, None}

"""Finds, for a new leader, the Slurm jobs under which pods of an earlier leader run, and the jobs that no pod names.

A pod's binding note is a group of annotations that name the gang and the job with which the pod was bound.

1. The binding notes of all pods are read, also of pods that come later (`read_notes`).
2. Slurm is asked for each job by itself: first for jobs whose Prolog or Epilog calls, then for jobs in notes, then for
   all others. The scheduler decides about a gang, and answers its Prologs and Epilogs, once the jobs in the notes of
   its pods are known.
3. When all jobs of gangs are known (`Ledger.all_jobs_known`), jobs may be submitted, and the scheduler also decides
   about gangs that have a pod on a node without a right note. Before that, a gang may have a job that no pod names, so
   `collect` lets no gang submit.
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
    """Fills the records of a new leader with the gangs and jobs that earlier leaders left."""

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
        """Find all Slurm jobs of gangs, and then allow submits. After that, search from time to time for jobs of gangs
        that the scheduler's records do not have, until cancelled.

        Such a job was left by a leader that died, or was made by a submit that Slurm answered too late. A poll shows
        its state, but not to which gang it belongs.
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
        """Read all pending and running jobs in Slurm that the scheduler's records do not have. Try again until Slurm
        can be read.
        """
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
        """Read the binding notes (annotations that name a pod's gang and job) of all pods, and from now on of each pod
        that comes.
        """
        self._cluster.pods.add_handler(self._read_note)
        async for pod in in_turns(tuple(self._cluster.pods.values())):
            self._read_note(None, pod)
        gc.freeze()  # else each garbage collection would walk these objects, and hold the event loop

    def _read_note(self, old: Pod | None, new: Pod | None) -> None:
        """If a new pod's binding note (annotations that name its gang and job) names a job that is not known as a job
        of its gang, have this job read from Slurm. An earlier leader may have bound the pod.
        """
        if new is None or (old is not None and old.uid == new.uid) or (job := noted_job(new)) is None:
            return
        id = self._members.find_id(new)
        record = self._ledger.get(id)
        if id is None or (record is not None and job not in record.jobs and self.jobs.whose.get(job) != id):
            self._pods.add(new, job)
            self.jobs.ask_about(job)

    # ------------------------------------------------------ 2. what jobs say

    def _learned(self, id: JobId, job: SlurmJob | None, asked_at: float, has_nodes: bool) -> None:
        """Take into account what Slurm has said of a job: put the job, and the pods whose annotations name it, into the
        job's gang. A job that has ended counts only if pods on nodes were bound under it.

        Args:
            id: the job's ID.
            job: the job; None if Slurm does not know it.
            asked_at: when Slurm was asked, in seconds of the clock.
            has_nodes: whether the job's list of nodes could be read.
        """
        gang = self.jobs.whose[id]
        if job is None:
            self._pods.settle_forgotten(id)
        elif gang is not None and gang != NOBODY:
            if self._pods.noting(id) or not self._ledger.all_jobs_known:
                self._pods.settle(id, gang, job.nodes)
            pods = self._members.pods_of(gang)  # anybody may write the ID of any job on another pod
            is_noted = any(is_noted_on(pod, id) for pod in pods)
            if holds_something(job.state) or is_noted:
                record = self._ledger.ensure(gang)
                self._ledger.take_job(record, job, asked_at=asked_at)
                self._ledger.change_job(record, id, lambda known: recall(known, pods))
                self._take_up(gang)
        for each in self._pods.done(id) - {gang} if has_nodes else ():
            self._take_up(each)

    def _take_up(self, id: GangId) -> None:
        record = self._ledger.get(id)
        if record is not None:
            self._find_own_job(record)
            self._ledger.queue.add(id)
            record.fire()

    def _find_own_job(self, record: GangRecord) -> None:
        """Record under which job the gang's pods on nodes were bound, if that is not known yet: a job of the gang that
        the pods' annotations name, or else a job of the gang that has started.

        A job that waits, and that no pod names, does not count: it is the replacement for these pods' lost job.
        """
        bound = [pod for pod in self._members.pods_of(record.id) if pod.spec.node_name]
        noted = {noted_job(pod) for pod in bound}
        own = [job for job in record.jobs.values() if job.id in noted or job.has_started]
        if bound and own and record.bound_to is None:
            record.bound_to = max(own, key=lambda job: (job.id in noted, job.is_live, job.id)).id

    def hurry(self, record: GangRecord) -> None:
        """Have those jobs read first that the annotations of the gang's pods name, and apply what is already known of
        the gang's jobs, because a Prolog or Epilog waits for an answer. Nothing happens if all jobs of gangs are known.
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
        """Record that all jobs of gangs are known. From now on jobs may be submitted, and the scheduler also decides
        about gangs whose pods on nodes lack annotations that prove under which job they run.
        """
        self._ledger.all_jobs_known = True
        async for record in in_turns(self._ledger):
            if record.bound_to is None or self._why_unproved(record) is not None:
                self._find_own_job(record)
                self._ledger.queue.add(record.id)
            record.fire()
        self._settled.clear()
        gc.freeze()
        self._log.info(
            "the gangs of the previous leader are known", gangs=len(self._ledger), pods=len(self._cluster.pods)
        )

    # ------------------------------------------------ what may go on until then

    def why_unknown(self, record: GangRecord) -> str | None:
        """Return in words why nothing may be decided or answered about a gang yet: this leader may not know all its
        jobs. None if they are known.
        """
        return None if self._ledger.all_jobs_known else self._why_unproved(record)

    def _why_unproved(self, record: GangRecord) -> str | None:
        """Return in words why nothing may be decided about a gang while Slurm may have jobs of gangs that the records
        lack. None if no pod of the gang is on a node, if the annotations of those pods prove under which job they run,
        or if they need no job.
        """
        pods = self._members.pods_of(record.id)
        if any((job := noted_job(pod)) is not None and not self._is_known(job) for pod in pods):
            return "the scheduler has just started, and still reads the job that is noted on the pods"
        bound = [pod for pod in pods if pod.spec.node_name]
        if not bound or self._is_proved(record.id, bound):
            return None
        gang = self._gangs.of(record).gang
        return (
            None
            if gang is not None and gang.never_queues
            else "the scheduler has just started, and still looks for the job of the pods"
        )

    def _is_known(self, job: JobId) -> bool:
        """True if it is known to which gang a job belongs, if to any. It stays known after the job has ended and its
        record has been removed.
        """
        if job not in self.jobs.whose and (record := self._ledger.by_job(job)) is not None:
            self.jobs.whose[job] = record.id
        return job in self.jobs.whose

    def _is_proved(self, id: GangId, bound: Iterable[Pod]) -> bool:
        """True if the annotations of each of these pods name a job, one of these jobs belongs to the gang, and Slurm
        has forgotten all of them that do not. Then it is certain under which job of the gang the pods run.
        """
        jobs = {noted_job(pod) for pod in bound}
        whose = {NOBODY if job is None else self.jobs.whose.get(job) for job in jobs}
        return id in whose and whose <= {id, None}

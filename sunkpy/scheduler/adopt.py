"""What a new leader takes over: under which jobs the pods of an earlier one are, and which jobs nobody has noted.

* Each job that is noted on a pod is asked for by itself. When that is known of all notes of a gang, hooks and passes
  about it go on.
* A gang with a pod on a node that has no right note waits until all jobs are known, and so does every submit: a job
  that nobody has noted may be the gang's already (`Ledger.is_whole`).
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from sunkpy.core.gang.gang import extra_pod
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model import hostlist
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId, SlurmJob, holds_something
from sunkpy.kube.informer import Handler
from sunkpy.runtime.queue import QueueMetrics, WorkQueue
from sunkpy.scheduler.cluster import Cluster
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.entries import GangEntry
from sunkpy.scheduler.job_search import JobSearch
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.members import MemberIndex
from sunkpy.scheduler.members_by_job import MembersByJob
from sunkpy.scheduler.noted_jobs import AGAIN_S, NOBODY, NotedJobs, noted_job, noted_jobs
from sunkpy.slurm.errors import SlurmError

_A_TURN: Final = 200


class Adoption:
    """Fills the ledger of a new leader. `queue`: the gangs to look at again."""

    def __init__(
        self,
        *,
        search: JobSearch,
        collector: Collector,
        cluster: Cluster,
        members: MemberIndex,
        ledger: Ledger,
        queue: WorkQueue[GangId],
        clock: Callable[[], float],
    ) -> None:
        self._search = search
        self._collector = collector
        self._cluster = cluster
        self._members = members
        self._ledger = ledger
        self._queue = queue
        self._clock = clock
        self._noted = NotedJobs(search, told=self._take, looked_at=self._looked_at, clock=clock)
        self._by_job = MembersByJob(cluster=cluster, members=members, ledger=ledger)
        self._aside: dict[JobId, list[str]] = {}
        self._log = structlog.get_logger("leader")

    # ------------------------------------------------------------- questions

    def why_unknown(self, entry: GangEntry) -> str | None:
        """Why nothing may be decided or answered about a gang yet; None when what counts is known."""
        return None if self._ledger.is_whole else self._why_unproved(entry)

    def _why_unproved(self, entry: GangEntry) -> str | None:
        """The same while there may be jobs that nobody knows."""
        pods = self._members.pods_of(entry.id)
        if any((job := noted_job(pod)) is not None and not self._is_known(job) for pod in pods):
            return "the job that is noted on its pods is being read"
        bound = [pod for pod in pods if pod.spec.node_name]
        if not bound or self._is_proved(entry.id, bound):
            return None
        gang = self._collector.view(entry).gang
        return None if gang is not None and gang.never_queues else "the jobs that nobody has noted are being read"

    def _is_known(self, job: JobId) -> bool:
        """It is known whose the job is; it stays so when the ledger forgets a job that has ended."""
        if job not in self._noted.whose and (entry := self._ledger.by_job(job)) is not None:
            self._noted.whose[job] = entry.id
        return job in self._noted.whose

    def _is_proved(self, id: GangId, bound: Iterable[Pod]) -> bool:
        """One of the noted jobs says so, and the others, if any, Slurm does not know any more."""
        jobs = {noted_job(pod) for pod in bound}
        whose = {NOBODY if job is None else self._noted.whose.get(job) for job in jobs}
        return id in whose and whose <= {id, None}

    def hurry(self, entry: GangEntry) -> None:
        """Somebody waits for an answer about the gang; of one that is an extra, its job may be the first to tell."""
        if not self._ledger.is_whole:
            self._note_extras([entry.id])
            for known in tuple(entry.jobs.values()):
                self._by_job.give_back(entry.id, known.state, known.nodes)
                self._by_job.claim_once(entry.id, known.id, known.nodes)
            for pod in self._members.pods_of(entry.id):
                job = noted_job(pod)
                if job is not None and not self._is_known(job):
                    self._noted.hurry(job, entry.id)

    # ---------------------------------------------------- what is noted on pods

    async def introduce(self, *handlers: Handler[Pod]) -> None:
        """Tell handlers of all pods that are there and will come; a part at a time, for others have a turn as well."""
        handlers = (*handlers, self._pod_changed)
        for handler in handlers:
            self._members.add_handler(handler)
        for number, pod in enumerate(tuple(self._cluster.pods.values())):
            if self._members.find_id(pod) is not None:
                for handler in handlers:
                    handler(None, pod)
            if number % _A_TURN == 0:
                await asyncio.sleep(0)
        gc.freeze()  # what stays is not walked by each collection, which would hold the loop

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod that comes with a note is one of an earlier leader."""
        if new is None or (old is not None and old.uid == new.uid) or (job := noted_job(new)) is None:
            return
        id = self._members.id_of(new)
        entry = self._ledger.get(id)
        if entry is not None and job not in entry.jobs and self._noted.whose.get(job) != id:
            self._noted.ask_about(job, id)

    def _take(self, job: SlurmJob, id: GangId | None, asked_at: float) -> None:
        """What a noted job says of itself. One that has ended counts for pods that it left on their nodes."""
        if id is None:
            return
        self._note_extras([id])
        for uid in self._aside.pop(job.id, ()):
            if (pod := self._members.aside(uid)) is not None:
                self._by_job.claim_aside(pod, id, job)
        nodes = hostlist.expand(job.nodes)
        self._by_job.give_back(id, job.state, nodes)
        if self._noted.is_of_others(job.id, id):
            self._by_job.claim(id, job.id, nodes)
        is_noted = any(pod.spec.node_name and noted_job(pod) == job.id for pod in self._members.pods_of(id))
        if holds_something(job.state) or is_noted:
            self._ledger.take_job(self._ledger.ensure(id), job, asked_at=asked_at)
            self._looked_at(id)

    def _looked_at(self, id: GangId) -> None:
        entry = self._ledger.get(id)
        if entry is not None:
            self._find_own_job(entry)
            self._queue.add(id)
            entry.fire()

    def _find_own_job(self, entry: GangEntry) -> None:
        """Under which job were its pods bound? The one that is noted, if it is the gang's, else one that has started.

        One that waits and is not noted is to cover pods whose job was lost.
        """
        bound = [pod for pod in self._members.pods_of(entry.id) if pod.spec.node_name]
        noted = {noted_job(pod) for pod in bound}
        own = [job for job in entry.jobs.values() if job.id in noted or job.has_started]
        if bound and own and entry.bound_to is None:
            now = self._clock()
            entry.bound_to = max(own, key=lambda job: (job.id in noted, job.view(now).is_live, job.id)).id

    # ------------------------------------------------- jobs that nobody has noted

    async def run(self, *, sweep_s: float, metrics: QueueMetrics) -> None:
        """Take over what is there, then look now and then for jobs that nobody knows, until cancelled.

        Such a job was left by a leader that died, or made by a late submit; no poll tells of it.
        """
        began_at = self._clock()
        for pod in self._cluster.pods.values():
            if self._members.aside(pod.uid) and pod.spec.node_name and (job := noted_job(pod)) is not None:
                self._aside.setdefault(job, []).append(pod.uid)
                self._noted.ask_about(job)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._noted.run(metrics))
            await self._noted.until_all_tried()
            await self._find_all(sent_after=began_at)
            await self._noted.until_all_tried()
            await self._now_whole()
            while True:
                self._noted.keep_only(await noted_jobs(self._cluster.pods.values()))
                await asyncio.sleep(sweep_s)
                await self._find_all(sent_after=self._clock())

    async def _find_all(self, *, sent_after: float) -> None:
        """Make known what nobody knew, when Slurm can be read."""
        found, is_said = None, False
        while found is None:
            try:
                found = await self._search.all(sent_after=sent_after)
            except SlurmError as error:
                log = self._log.debug if is_said else self._log.warning
                log("not all jobs can be read: tried again until they can", error=str(error))
                is_said = True
                await asyncio.sleep(AGAIN_S)
        self._note_extras(found)
        for id, jobs in found.items():
            self._adopt_all(id, jobs)

    def _adopt_all(self, id: GangId, jobs: Iterable[SlurmJob]) -> None:
        """If one of them may be that of pods that have nodes, it is asked once more: how is it now?"""
        entry = self._ledger.ensure(id)
        is_one_missing = entry.bound_to is None and any(pod.spec.node_name for pod in self._members.pods_of(id))
        for job in jobs:
            if self._by_job.has_claimed:
                self._by_job.give_back(id, job.state, hostlist.expand(job.nodes))
            self._ledger.adopt_job(entry, job)
            if is_one_missing:
                self._noted.ask_about(job.id, id)
        self._queue.add(id)

    async def _now_whole(self) -> None:
        """Submits may go on, and whoever had no right note; a part of all at a time, for others have a turn as well."""
        self._ledger.is_whole = True
        for number, entry in enumerate(self._ledger):
            if entry.bound_to is None or self._why_unproved(entry) is not None:
                self._find_own_job(entry)
                self._queue.add(entry.id)
            entry.fire()
            if number % _A_TURN == 0:
                await asyncio.sleep(0)
        gc.freeze()
        self._log.info("adopted", gangs=len(self._ledger), pods=len(self._cluster.pods))

    def _note_extras(self, ids: Iterable[GangId]) -> None:
        """Not of a pod that was bound under the job of another gang: what was submitted for it is not wanted."""
        self._members.note_extras([id for id in ids if not self._is_bound_elsewhere(id)])

    def _is_bound_elsewhere(self, id: GangId) -> bool:
        pod = self._members.find(extra_pod(id)) if extra_pod(id) else None
        if pod is None or not pod.spec.node_name or (job := noted_job(pod)) is None:
            return False
        return self._noted.whose.get(job) not in (None, NOBODY, id)

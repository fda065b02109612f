"""What the leading replica runs: adopt what is there, then watch, poll and reconcile."""

from __future__ import annotations

import asyncio
import time

import structlog

from sunkpy.core import names
from sunkpy.core.gang.decide import Policy
from sunkpy.core.gang.identity import parse_comment
from sunkpy.core.gang.lifecycle import State
from sunkpy.core.gang.view import is_over
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.runtime.process import Process
from sunkpy.runtime.queue import WorkQueue, run_workers
from sunkpy.scheduler.cluster import Cluster
from sunkpy.scheduler.hooks import Hooks, HookServer, NodeAuth
from sunkpy.scheduler.jobs import JobPoller, JobSearch
from sunkpy.scheduler.ledger import GangEntry, Ledger
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.pod_writer import PodWriter
from sunkpy.scheduler.reconciler import Reconciler
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.slurm import NodeCache, Slurm
from sunkpy.slurm.errors import SlurmError

_WORKERS = 16
_NODES_EACH_S = 2.0
_ADOPT_AGAIN_S = 1.0
_SPREAD_S = 0.5

_OURS = frozenset({names.ANNOTATION_JOB_ID, names.ANNOTATION_PLACED_ON})


class Leader:
    """One term of leadership; made anew for each."""

    def __init__(
        self, kube: Kube, slurm: Slurm, settings: SchedulerSettings, process: Process, metrics: SchedulerMetrics
    ) -> None:
        self._settings = settings
        self._process = process
        self._log = structlog.get_logger("leader")
        self._ledger = Ledger()
        self._queue: WorkQueue[str] = WorkQueue("gangs")
        self._search = JobSearch(slurm, user=settings.slurm.user)
        self._slurm_nodes = NodeCache(slurm, poll_s=_NODES_EACH_S)
        self._slurm_nodes.add_listener(self._slurm_answered)
        self._cluster = Cluster(kube, self._slurm_nodes, settings, on_nodes=self._nodes_changed)
        self._poller = JobPoller(
            slurm, self._ledger, metrics, poll_s=settings.poll_seconds, on_change=self._gang_changed
        )
        events = EventRecorder(kube, component="scheduler", instance=process.identity.name)
        pods = PodWriter(kube, events)
        self._reconciler = Reconciler(
            cluster=self._cluster,
            slurm=slurm,
            pods=pods,
            ledger=self._ledger,
            queue=self._queue,
            search=self._search,
            policy=Policy(gpu_resources=settings.gpu_resources, default_partition=settings.default_partition),
            metrics=metrics,
        )
        self.hooks = Hooks(
            auth=NodeAuth(kube, self._cluster, audience=settings.hooks.audience),
            cluster=self._cluster,
            slurm=slurm,
            slurm_user=settings.slurm.user,
            pods=pods,
            ledger=self._ledger,
            queue=self._queue,
            reconciler=self._reconciler,
            metrics=metrics,
        )

    async def run(self, server: HookServer) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._cluster.run())
                await self._cluster.synced()
                await self._adopt()
                self._cluster.pods.add_handler(self._pod_changed)
                for pod in self._cluster.pods.values():
                    self._pod_changed(None, pod)
                server.hooks = self.hooks
                group.create_task(self._poller.run())
                group.create_task(
                    run_workers(
                        self._queue, self._reconciler.reconcile, workers=_WORKERS, metrics=self._process.queue_metrics
                    )
                )
        finally:
            server.hooks = None

    # -------------------------------------------------------------- adoption

    async def _adopt(self) -> None:
        """Find the jobs of all gangs by their comment. Until this is done nothing is submitted or told to anybody."""
        jobs = await self._all_jobs()
        now = time.monotonic()
        for uid, found in jobs.items():
            live = [job for job in found if not job.is_ended or job.is_completing]
            gang = parse_comment(found[0].comment)
            if gang is None or not live:
                continue
            entry = self._ledger.ensure(uid, (gang.namespace, gang.name), now=now)
            for job in live:
                self._ledger.add_job(entry, job.id, now=now, excluded=job.excluded_nodes)
        for pod in self._cluster.pods.values():
            if pod.spec.node_name and not is_over(pod):
                self._adopt_bound(pod, jobs.get(pod.uid, []), known={job.id for all_ in jobs.values() for job in all_})
        self._log.info("adopted", gangs=len(list(self._ledger)), pods=len(self._cluster.pods))

    async def _all_jobs(self) -> dict[str, list[SlurmJob]]:
        asked_at = time.monotonic()
        while True:
            try:
                return await self._search.all(sent_after=asked_at)
            except SlurmError as error:
                self._log.warning("jobs cannot be read: waiting", error=error.message)
                await asyncio.sleep(_ADOPT_AGAIN_S)

    def _adopt_bound(self, pod: Pod, jobs: list[SlurmJob], *, known: set[JobId]) -> None:
        """Under which job was this pod bound? Its annotation tells, but only the job's comment proves it."""
        now = time.monotonic()
        noted = pod.annotations.get(names.ANNOTATION_JOB_ID, "")
        entry = self._ledger.ensure(pod.uid, pod.key, now=now)
        own = sorted(jobs, key=lambda job: (str(job.id) == noted, job.is_running, job.id))
        if own:
            entry.bound_to = own[-1].id
        elif noted.isdigit() and JobId(int(noted)) not in known:
            entry.bound_to = JobId(int(noted))  # Slurm has forgotten it, or it never existed: the poll will tell
        if entry.bound_to is not None:
            self._ledger.add_job(entry, entry.bound_to, now=now)

    # --------------------------------------------------------------- changes

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.uid != old.uid) and self._ledger.get(old.uid) is not None:
            self._wake(old.uid)
        if new is None or (is_over(new) and self._ledger.get(new.uid) is None):
            return
        entry = self._ledger.ensure(new.uid, new.key, now=time.monotonic())
        if old is not None and old.uid == new.uid and _wishes(old) != _wishes(new):
            entry.forgive()
        self._wake(new.uid)

    def _wake(self, uid: str) -> None:
        self._queue.add(uid)
        entry = self._ledger.get(uid)
        if entry is not None:
            entry.fire()

    def _gang_changed(self, entry: GangEntry) -> None:
        self._queue.add(entry.uid)

    def _slurm_answered(self, _: frozenset[str]) -> None:
        if self._slurm_nodes.problem is not None:  # the reads before this one failed
            for entry in self._ledger.forgive_silence():
                self._queue.add(entry.uid)

    def _nodes_changed(self) -> None:
        """Gangs that wait may fit now, or no longer; a moment later, for nodes change in groups."""
        for entry in self._ledger:
            if entry.state in (State.WAITING, State.SUBMITTED):
                self._queue.add_after(entry.uid, _SPREAD_S)


def _wishes(pod: Pod) -> tuple[object, ...]:
    """What a pod's owner can change about it while it waits."""
    annotations = {key: value for key, value in pod.annotations.items() if key not in _OURS}
    return (annotations, pod.spec.scheduling_gates, pod.spec.node_selector, pod.spec.tolerations)

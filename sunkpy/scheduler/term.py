"""One term of leadership: the parts are made, what is there is adopted, then watched, polled and reconciled.

Nothing outlives the term but the metrics: the next leader finds all it needs on pods and jobs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from sunkpy.core.gang.families import FAMILIES, Families
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.request import Policy
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.runtime.process import Process
from sunkpy.runtime.queue import WorkQueue, run_workers
from sunkpy.scheduler.adopt import Adoption
from sunkpy.scheduler.bind import Binder
from sunkpy.scheduler.cluster import Cluster
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.end_causes import EndCauses
from sunkpy.scheduler.execute import Executor
from sunkpy.scheduler.hook_server import HookServer
from sunkpy.scheduler.hooks import Hooks
from sunkpy.scheduler.job_poll import JobPoller
from sunkpy.scheduler.job_search import JobSearch
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.loop import GangLoop
from sunkpy.scheduler.members import MemberIndex
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.node_auth import NodeAuth
from sunkpy.scheduler.pod_writer import PodWriter
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.scheduler.submit import JobWriter
from sunkpy.slurm import NodeCache, Slurm

_WORKERS = 16
_NODES_EACH_S = 2.0


class Term:
    """Made anew for each term. `families` are the workloads that are known, `clock` is monotonic, in seconds."""

    def __init__(
        self,
        *,
        kube: Kube,
        slurm: Slurm,
        settings: SchedulerSettings,
        process: Process,
        metrics: SchedulerMetrics,
        families: Families = FAMILIES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._process = process
        self._ledger = Ledger(clock)
        self._queue: WorkQueue[GangId] = WorkQueue("gangs")
        self._slurm_nodes = NodeCache(slurm, poll_s=_NODES_EACH_S)
        self._cluster = Cluster(kube, self._slurm_nodes, settings, on_nodes=lambda: self._loop.nodes_changed())
        members = MemberIndex(families)
        self._cluster.pods.add_handler(members.update)
        search = JobSearch(slurm, user=settings.slurm.user, clock=clock)
        pods = PodWriter(kube, EventRecorder(kube, component="scheduler", instance=process.identity.name))
        jobs = JobWriter(
            slurm=slurm, search=search, ledger=self._ledger, queue=self._queue, metrics=metrics, clock=clock
        )
        collector = Collector(cluster=self._cluster, members=members, clock=clock)
        binder = Binder(cluster=self._cluster, pods=pods, metrics=metrics, clock=clock)
        executor = Executor(
            cluster=self._cluster,
            pods=pods,
            jobs=jobs,
            binder=binder,
            causes=EndCauses(slurm),
            metrics=metrics,
            clock=clock,
        )
        self._loop = GangLoop(
            collector=collector,
            executor=executor,
            binder=binder,
            pods=pods,
            members=members,
            ledger=self._ledger,
            queue=self._queue,
            policy=Policy(gpu_resources=settings.gpu_resources, default_partition=settings.default_partition),
            metrics=metrics,
            clock=clock,
        )
        self._adoption = Adoption(
            cluster=self._cluster, members=members, ledger=self._ledger, search=search, clock=clock
        )
        self._poller = JobPoller(
            slurm,
            self._ledger,
            metrics,
            poll_s=settings.poll_seconds,
            clock=clock,
            on_change=self._loop.gang_changed,
        )
        self._hooks = Hooks(
            auth=NodeAuth(kube, self._cluster, audience=settings.hooks.audience),
            slurm=slurm,
            slurm_user=settings.slurm.user,
            pods=pods,
            ledger=self._ledger,
            queue=self._queue,
            collector=collector,
            members=members,
            metrics=metrics,
            clock=clock,
        )
        self._slurm_nodes.add_listener(self._slurm_answered)

    async def run(self, server: HookServer) -> None:
        """Work until cancelled; hooks are answered once what is there has been adopted."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._cluster.run())
                await self._cluster.synced()
                await self._adoption.run()
                self._cluster.pods.add_handler(self._loop.pod_changed)
                for pod in self._cluster.pods.values():
                    self._loop.pod_changed(None, pod)
                server.hooks = self._hooks
                group.create_task(self._poller.run())
                metrics = self._process.queue_metrics
                group.create_task(run_workers(self._queue, self._loop.reconcile, workers=_WORKERS, metrics=metrics))
        finally:
            server.hooks = None

    def _slurm_answered(self, _: frozenset[str]) -> None:
        if self._slurm_nodes.problem is not None:  # the reads before this one failed
            self._loop.slurm_answers_again()

"""One term of leadership: the parts are made, what is there is adopted, then watched, polled and reconciled.

Nothing outlives the term but the metrics: the next leader finds all it needs on pods and jobs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from sunkpy.core.gang.families import FAMILIES, Families
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.owners import kinds_read
from sunkpy.core.gang.request import Policy
from sunkpy.kube.client import Kube
from sunkpy.runtime.process import Process
from sunkpy.runtime.queue import QueueMetrics, WorkQueue, run_workers
from sunkpy.scheduler.adopt import Adoption
from sunkpy.scheduler.bind import Binder
from sunkpy.scheduler.claims import Claims
from sunkpy.scheduler.cluster import Cluster
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.execute import Executor
from sunkpy.scheduler.gate import Gate
from sunkpy.scheduler.hook_server import HookServer
from sunkpy.scheduler.hooks import Hooks
from sunkpy.scheduler.job_poll import JobPoller
from sunkpy.scheduler.job_search import JobSearch
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.loop import GangLoop
from sunkpy.scheduler.members import MemberIndex
from sunkpy.scheduler.membership import Membership
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.node_auth import NodeAuth
from sunkpy.scheduler.noted_jobs import noted_job
from sunkpy.scheduler.notices import Notices
from sunkpy.scheduler.oddities import Oddities
from sunkpy.scheduler.owner_watch import OwnerWatches
from sunkpy.scheduler.owners import Owners
from sunkpy.scheduler.pod_groups import PhaseRule, PodGroups
from sunkpy.scheduler.recognition import Recognition
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.scheduler.submit import JobWriter
from sunkpy.scheduler.suspensions import Suspensions
from sunkpy.slurm import NodeCache, Slurm

_WORKERS = 16
_ONLY_URGENT = 8
_NODES_EACH_S = 6.0
"""Which nodes there are and how large; a slurmd pod that registers or leaves is looked for at once."""


class Term:
    """Made anew for each term. `families` are the workloads that are known, `phases` the pod groups whose phase the
    scheduler keeps, if any; `clock` is monotonic, in seconds.
    """

    def __init__(
        self,
        *,
        kube: Kube,
        slurm: Slurm,
        settings: SchedulerSettings,
        process: Process,
        metrics: SchedulerMetrics,
        families: Families = FAMILIES,
        phases: PhaseRule | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube, self._slurm = kube, slurm
        self._settings, self._process = settings, process
        self._metrics, self._clock = metrics, clock
        self._ledger = Ledger(clock)
        self._queue: WorkQueue[GangId] = WorkQueue("gangs", urgency=self._ledger.urgency)
        self._ledger.on_lost = self._queue.add
        self._search = JobSearch(slurm, user=settings.slurm.user, ledger=self._ledger, clock=clock)
        self._slurm_nodes = NodeCache(slurm, poll_s=_NODES_EACH_S)
        self._notices = Notices(
            kube, slurm, instance=process.identity.name, find=lambda key: self._cluster.pods.get(*key), clock=clock
        )
        self._pods = self._notices.pods
        self._oddities = Oddities(pods=self._pods, metrics=metrics)
        self._cluster = self._make_cluster()
        self._answered_at = clock()
        self._slurm_nodes.add_listener(self._slurm_answered)
        self._watches = self._make_watches(families)
        self._members = self._make_members(families)
        self._pod_groups = self._make_pod_groups(phases) if phases is not None else None
        self._collector = Collector(
            cluster=self._cluster, members=self._members, ledger=self._ledger, settings=settings, clock=clock
        )
        self._adoption = self._make_adoption()
        self._loop = self._make_loop()
        self._poller = self._make_poller()
        self._hooks = self._make_hooks()

    def _make_cluster(self) -> Cluster:
        return Cluster(
            self._kube,
            self._slurm_nodes,
            self._settings,
            on_nodes=lambda: self._loop.nodes_changed(),
            on_namespace=lambda name: self._loop.namespace_changed(name),
            note_odd=self._oddities.note,
        )

    def _make_watches(self, families: Families) -> OwnerWatches:
        return OwnerWatches(
            self._kube,
            reads=kinds_read(families),
            pods=self._cluster.pods,
            clock=self._clock,
            note_odd=self._oddities.note,
            metrics=self._process.queue_metrics,
        )

    def _make_loop(self) -> GangLoop:
        binder = Binder(cluster=self._cluster, notices=self._notices, metrics=self._metrics, clock=self._clock)
        jobs = JobWriter(
            slurm=self._slurm,
            user=self._settings.slurm.user,
            search=self._search,
            ledger=self._ledger,
            queue=self._queue,
            metrics=self._metrics,
            clock=self._clock,
            on_submitted=lambda: self._poller.hurry(),
        )
        executor = Executor(
            cluster=self._cluster,
            members=self._members,
            jobs=jobs,
            binder=binder,
            suspensions=self._suspensions,
            notices=self._notices,
            metrics=self._metrics,
            clock=self._clock,
        )
        return GangLoop(
            adoption=self._adoption,
            collector=self._collector,
            executor=executor,
            binder=binder,
            pods=self._pods,
            members=self._members,
            ledger=self._ledger,
            queue=self._queue,
            policy=_policy(self._settings),
            metrics=self._metrics,
            clock=self._clock,
        )

    def _make_gate(self) -> Gate:
        return Gate(
            slurm=self._slurm,
            claims=Claims(slurm=self._slurm, user=self._settings.slurm.user, ledger=self._ledger, clock=self._clock),
            adoption=self._adoption,
            collector=self._collector,
            members=self._members,
            ledger=self._ledger,
            queue=self._queue,
            vanished=self._cluster.vanished,
            clock=self._clock,
        )

    def _make_hooks(self) -> Hooks:
        return Hooks(
            auth=NodeAuth(self._kube, self._cluster, audience=self._settings.hooks.audience),
            adoption=self._adoption,
            gate=self._make_gate(),
            pods=self._pods,
            ledger=self._ledger,
            queue=self._queue,
            collector=self._collector,
            members=self._members,
            metrics=self._metrics,
            clock=self._clock,
        )

    def _make_members(self, families: Families) -> MemberIndex:
        owners = Owners(self._watches, families)
        recognition = Recognition(families, owners=owners, note_odd=self._oddities.note)
        self._membership = Membership(recognition=recognition, pods=self._pods, ledger=self._ledger, queue=self._queue)
        members = MemberIndex(recognition, owners=owners, listener=self._membership, clock=self._clock)
        members.add_handler(partial(self._membership.pod_changed, members))
        self._cluster.pods.add_handler(members.update)
        self._cluster.vanished.job_of = lambda pod: self._ledger.job_under(members.find_id(pod)) or noted_job(pod)
        self._suspensions = Suspensions(
            self._kube,
            kinds=kinds_read(families),
            watches=self._watches,
            has_pods=members.has_living,
            scheduler=self._settings.scheduler_name,
        )
        return members

    def _make_pod_groups(self, rule: PhaseRule) -> PodGroups:
        schedulers, pods = self._settings.scheduler_names, self._cluster.pods
        return PodGroups(self._kube, rule, watches=self._watches, pods=pods, schedulers=schedulers)

    async def run(self, server: HookServer) -> None:
        """Work until cancelled. Of jobs nothing is read before hooks are answered: see `sunkpy.scheduler.adopt`."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._cluster.run())
                group.create_task(self._watches.run())
                group.create_task(self._oddities.run(self._process.queue_metrics))
                await self._cluster.synced()
                await self._members.wait_for_owners()
                await self._adoption.introduce(self._loop.pod_changed)
                group.create_task(self._membership.run(self._members, self._process.queue_metrics))
                if self._settings.suspend_owners:
                    group.create_task(self._suspensions.run(self._process.queue_metrics))
                if self._pod_groups is not None:
                    group.create_task(self._pod_groups.run(self._process.queue_metrics))
                server.hooks = self._hooks
                group.create_task(self._notices.run(self._process.queue_metrics))
                group.create_task(self._poller.run())
                sweep_s = self._settings.sweep_seconds
                group.create_task(self._adoption.run(sweep_s=sweep_s, metrics=self._process.queue_metrics))
                group.create_task(_work(self._queue, self._loop, self._process.queue_metrics))
        finally:
            server.hooks = None

    def _make_adoption(self) -> Adoption:
        return Adoption(
            search=self._search,
            collector=self._collector,
            cluster=self._cluster,
            members=self._members,
            ledger=self._ledger,
            queue=self._queue,
            clock=self._clock,
        )

    def _make_poller(self) -> JobPoller:
        return JobPoller(
            self._slurm,
            self._ledger,
            self._metrics,
            user=self._settings.slurm.user,
            poll_s=self._settings.poll_seconds,
            clock=self._clock,
            on_change=self._loop.gang_changed,
            on_states=self._notices.causes.saw,
        )

    def _slurm_answered(self, _: frozenset[str]) -> None:
        if self._slurm_nodes.problem is not None:  # the reads before this one failed
            self._search.slurm_was_away(since=self._answered_at)
            self._loop.slurm_answers_again()
        self._answered_at = self._clock()


async def _work(queue: WorkQueue[GangId], loop: GangLoop, metrics: QueueMetrics) -> None:
    """Evictions, bindings and ends never wait behind the submits of pods that come by the thousand."""
    await run_workers(queue, loop.reconcile, workers=_WORKERS, only_urgent=_ONLY_URGENT, metrics=metrics)


def _policy(settings: SchedulerSettings) -> Policy:
    return Policy(
        gpu_resources=settings.gpu_resources,
        default_partition=settings.default_partition,
        longest_grace_s=settings.hooks.longest_grace_s,
        suspend_owners=settings.suspend_owners,
        immediate_allocation=settings.immediate_allocation,
    )

"""One term of leadership: the parts are made, what is there is taken over, then watched, polled and reconciled.

Parts are made bottom-up: each takes those that were made before it, and registers with those whose changes it has to
hear of. Only the metrics outlive the term: the next leader finds all it needs on pods and jobs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial

from sunkpy.core.gang.binding_note import noted_job
from sunkpy.core.gang.families import FAMILIES, Families
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.owners import kinds_read
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.runtime.process import Process
from sunkpy.runtime.queue import run_workers
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.devices.allocate import Allocator
from sunkpy.scheduler.devices.handout import Handout
from sunkpy.scheduler.events.budgets import ViolatedBudgets
from sunkpy.scheduler.events.outbox import Outbox
from sunkpy.scheduler.events.unreadable import UnreadableObjects
from sunkpy.scheduler.execute import Executor
from sunkpy.scheduler.hooks.answers import Hooks
from sunkpy.scheduler.hooks.gate import Gate
from sunkpy.scheduler.hooks.node_auth import NodeAuth
from sunkpy.scheduler.hooks.proof import HookProof
from sunkpy.scheduler.jobs.end_causes import EndCauses
from sunkpy.scheduler.jobs.poll import JobPoller
from sunkpy.scheduler.jobs.writer import JobWriter
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.loop import GangLoop
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.nodes.cluster import Cluster
from sunkpy.scheduler.nodes.recheck import recheck
from sunkpy.scheduler.owners.index import Owners
from sunkpy.scheduler.owners.pod_groups import PodGroups
from sunkpy.scheduler.owners.suspensions import Suspensions
from sunkpy.scheduler.owners.watch import OwnerWatches
from sunkpy.scheduler.pods.bind import Binder
from sunkpy.scheduler.pods.evict import Evictor
from sunkpy.scheduler.pods.index import PodIndex
from sunkpy.scheduler.pods.recognition import Recognition
from sunkpy.scheduler.pods.unidentified import Unidentified
from sunkpy.scheduler.pods.vanished import Vanished
from sunkpy.scheduler.pods.writer import PodWriter
from sunkpy.scheduler.record import Record
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.scheduler.takeover import Takeover
from sunkpy.scheduler.wake import Wake
from sunkpy.slurm import NodeCache, Slurm

_WORKERS = 16
_ONLY_URGENT = 8
"""Evictions, bindings and ends never wait behind the submits of pods that come by the thousand."""

Answering = Callable[[Hooks | None], None]
"""Called with the hooks of a leader from when they can be answered, and with None when it leads no more."""


class Term:
    """Made for each term. `families` are the workloads that are known; `clock` is monotonic, in seconds."""

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
        self._kube, self._slurm = kube, slurm
        self._settings, self._metrics, self._clock = settings, metrics, clock
        self._queues = process.queue_metrics
        self._ledger = Ledger(clock)
        self._wake = Wake(self._ledger)
        self._events = EventRecorder(kube, component="scheduler", instance=process.identity.name)
        self._writer = PodWriter(kube)
        self._unreadable = UnreadableObjects(events=self._events, metrics=metrics)
        self._causes = EndCauses(slurm)
        self._watch_cluster(families)
        self._group_pods(families)
        self._follow_jobs()
        self._decide()
        self._answer_hooks()

    def _watch_cluster(self, families: Families) -> None:
        """Nodes, pods, and what stands above pods."""
        kube, settings, on_unreadable = self._kube, self._settings, self._unreadable.note
        self._slurm_nodes = NodeCache(self._slurm, poll_s=settings.times.nodes_each_s)
        self._cluster = Cluster(
            kube,
            self._slurm_nodes,
            settings,
            on_nodes=self._wake.nodes.set,
            on_neighbours=self._wake.neighbours.set,
            on_namespace=self._wake.namespace_changed,
            on_claim=lambda pod: self._wake.gang(self._members.find_id(pod)),
            on_unreadable=on_unreadable,
        )
        pods = self._cluster.pods
        self._outbox = Outbox(
            events=self._events,
            pods=self._writer,
            causes=self._causes,
            budgets=ViolatedBudgets(kube, self._events, settled_s=settings.times.budgets_after_s),
            find=lambda key: pods.get(*key),
            clock=self._clock,
            noted_after_s=settings.times.noted_after_s,
        )
        self._watches = OwnerWatches(
            kube,
            reads=kinds_read(families),
            pods=pods,
            clock=self._clock,
            on_unreadable=on_unreadable,
            metrics=self._queues,
            times=settings.times.kinds,
        )
        schedulers = settings.scheduler_names
        self._pod_groups = PodGroups(kube, watches=self._watches, pods=pods, schedulers=schedulers)

    def _group_pods(self, families: Families) -> None:
        """Which pod is of which gang."""
        owners = Owners(self._watches, families)
        on_unreadable, largest = self._unreadable.note, self._settings.largest_gang
        recognition = Recognition(families, owners=owners, on_unreadable=on_unreadable, largest=largest)
        self._members = PodIndex(recognition, owners=owners, wake=self._wake, clock=self._clock)
        self._vanished = Vanished(job_of=self._job_of, teardown_s=self._settings.times.teardown_s)
        self._cluster.pods.add_handler(self._vanished.update)  # before the index forgets whose a pod was
        self._cluster.pods.add_handler(self._members.update)
        members = self._members
        self._unidentified = Unidentified(
            members.unidentified,
            id_of=members.find_id,
            recognition=recognition,
            pods=self._writer,
            outbox=self._outbox,
            told_after_s=self._settings.times.unidentified_told_after_s,
        )
        members.add_listener(self._unidentified.add)
        members.add_handler(self._unidentified.pod_changed)
        self._suspensions = Suspensions(
            self._kube,
            kinds=kinds_read(families),
            watches=self._watches,
            has_pods=self._members.has_living,
            scheduler=self._settings.scheduler_name,
            again_s=self._settings.times.resume_again_s,
        )

    def _job_of(self, pod: Pod) -> JobId | None:
        record = self._ledger.get(self._members.find_id(pod))
        return (record.bound_to if record is not None else None) or noted_job(pod)

    def _follow_jobs(self) -> None:
        """What Slurm says of our jobs."""
        user, clock = self._settings.slurm.user, self._clock
        self._poller = JobPoller(
            self._slurm,
            self._ledger,
            self._metrics,
            user=user,
            poll_s=self._settings.poll_seconds,
            clock=clock,
            on_states=self._causes.saw,
            young_s=self._settings.times.young_s,
        )
        self._slurm_nodes.add_listener(self._slurm_answered)

    def _slurm_answered(self, _: frozenset[str]) -> None:
        if self._slurm_nodes.problem is not None:  # the reads before this one failed
            self._wake.slurm_answers_again()

    def _decide(self) -> None:
        """From what is known to what is done."""
        ledger, cluster, members, outbox = self._ledger, self._cluster, self._members, self._outbox
        settings, metrics, clock = self._settings, self._metrics, self._clock
        self._collector = Collector(cluster, members, ledger, settings, clock)
        user = settings.slurm.user
        self._takeover = Takeover(self._slurm, user=user, cluster=cluster, members=members, ledger=ledger, clock=clock)
        jobs = JobWriter(
            slurm=self._slurm,
            user=user,
            search=self._takeover.jobs,
            ledger=ledger,
            metrics=metrics,
            clock=clock,
            on_submitted=self._poller.hurry,
            times=settings.times,
        )
        self._lines = jobs.lines
        pods, times = self._writer, settings.times
        name, keeps = settings.scheduler_name, self._vanished.keeps
        resource = settings.handed_out
        handout = Handout(pods, resource=resource, gres=settings.gpu_resources.get(resource, ""))
        devices = cluster.devices
        allocator = Allocator(self._kube, self._slurm, devices, pods, metrics, name=name, keeps=keeps, handout=handout)
        binder = Binder(cluster, pods, allocator, outbox, metrics, clock, times.admission_patience_s)
        causes, suspensions, again_s = self._causes, self._suspensions, times.evict_again_s
        evictor = Evictor(cluster, pods, allocator, causes, suspensions, outbox, metrics, clock, again_s)
        executor = Executor(members, pods, jobs, binder, allocator, evictor, outbox, clock)
        policy, takeover, collect = _policy(settings), self._takeover, self._collector
        self._loop = GangLoop(takeover, collect, executor, binder, pods, members, ledger, policy, metrics, clock, times)

    def _answer_hooks(self) -> None:
        ledger, members, clock = self._ledger, self._members, self._clock
        takeover, collector, vanished = self._takeover, self._collector, self._vanished
        auth = NodeAuth(self._kube, self._cluster, audience=self._settings.hooks.audience)
        proof = HookProof(slurm=self._slurm, user=self._settings.slurm.user, ledger=ledger, clock=clock)
        gate = Gate(self._slurm, proof, takeover, collector, members, ledger, vanished, clock, self._settings.times)
        self._hooks = Hooks(
            auth, proof, gate.ask, takeover, self._writer, ledger, collector, members, vanished, self._metrics, clock
        )

    def _rechecks(self) -> Iterable[tuple[asyncio.Event, Callable[[Record], bool], float]]:
        """What has changed, whom it concerns, and how long to wait for more of it."""
        wake, collector, times = self._wake, self._collector, self._settings.times
        yield wake.nodes, collector.is_concerned, times.recheck_spread_s
        yield wake.neighbours, collector.has_other_neighbours, times.other_pods_again_s

    async def run(self, answering: Answering) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                # 1. Watch nodes, pods and their owners, until all are known that are there.
                group.create_task(self._cluster.run())
                group.create_task(self._watches.run())
                group.create_task(self._unreadable.run(self._queues))
                await self._cluster.synced()
                await self._members.wait_for_owners()
                # 2. Put pods into gangs. Hooks are answered before anything is read of jobs (`scheduler.takeover`).
                await self._takeover.introduce(partial(self._wake.pod_changed, self._members.id_of))
                group.create_task(self._unidentified.run(self._queues))
                if self._settings.suspend_owners:
                    group.create_task(self._suspensions.run(self._queues))
                group.create_task(self._pod_groups.run(self._queues))
                answering(self._hooks)
                # 3. Tell people, follow the jobs, and take over those that an earlier leader left.
                group.create_task(self._outbox.run(self._queues))
                group.create_task(self._poller.run())
                group.create_task(self._lines.run())
                group.create_task(self._takeover.run(sweep_s=self._settings.sweep_seconds, metrics=self._queues))
                # 4. Reconcile the gangs that a change has enqueued.
                for changed, is_concerned, spread_s in self._rechecks():
                    turn_s = self._settings.times.recheck_turn_s
                    gangs, metrics = self._ledger, self._metrics
                    group.create_task(recheck(changed, is_concerned, gangs, metrics, spread_s=spread_s, turn_s=turn_s))
                await run_workers(
                    self._ledger.queue,
                    self._loop.reconcile,
                    workers=_WORKERS,
                    only_urgent=_ONLY_URGENT,
                    metrics=self._queues,
                )
        finally:
            answering(None)


def _policy(settings: SchedulerSettings) -> Policy:
    return Policy(
        gpu_resources=settings.counted,
        default_partition=settings.default_partition,
        longest_grace_s=settings.hooks.longest_grace_s,
        partition_grace_s=settings.hooks.longest_grace_seconds_in,
        suspend_owners=settings.suspend_owners,
        immediate_allocation=settings.immediate_allocation,
        gpu_sharing=settings.gpu_sharing,
    )

"""One term of leadership: makes the parts of the scheduler, takes over the pods and jobs of earlier leaders, and then
runs the parts.

A part is made after the parts that it uses: it gets them as arguments, and registers as a listener of them. Of all this
only the metrics outlive the term: the next leader finds what it needs on pods and in the comments of jobs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from sunkpy.core.gang.families import FAMILIES, Families
from sunkpy.core.gang.owners import kinds_read
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.pulse import Pulse
from sunkpy.runtime.process import Process
from sunkpy.runtime.queue import run_workers
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.devices.allocate import Allocator
from sunkpy.scheduler.devices.handout import Handout
from sunkpy.scheduler.devices.made import ClaimMaker
from sunkpy.scheduler.execute import Executor
from sunkpy.scheduler.hooks.answers import Hooks
from sunkpy.scheduler.hooks.gate import Gate
from sunkpy.scheduler.hooks.proof import HookProof, NodeAuth
from sunkpy.scheduler.jobs.end_causes import EndCauses
from sunkpy.scheduler.jobs.poll import JobPoller
from sunkpy.scheduler.jobs.writer import JobWriter
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.loop import GangLoop
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.nodes.cluster import Cluster
from sunkpy.scheduler.outbox import Outbox
from sunkpy.scheduler.owners.index import OwnerIndex
from sunkpy.scheduler.owners.pod_groups import PodGroups
from sunkpy.scheduler.owners.suspensions import Suspensions
from sunkpy.scheduler.owners.watch import OwnerWatches
from sunkpy.scheduler.pods.bind import Binder
from sunkpy.scheduler.pods.evict import Evictor
from sunkpy.scheduler.pods.gangs import Gangs
from sunkpy.scheduler.pods.index import PodsByGang
from sunkpy.scheduler.pods.recognition import Recognition
from sunkpy.scheduler.pods.unidentified import Unidentified
from sunkpy.scheduler.pods.vanished import Vanished
from sunkpy.scheduler.pods.wake import Wake, recheck
from sunkpy.scheduler.pods.writer import PodWriter
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.scheduler.takeover import Takeover
from sunkpy.slurm import NodeCache, Slurm

_WORKERS = 16
_ONLY_URGENT = 8
"""Workers that take only urgent gangs, so that evictions and bindings never wait for the submits of thousands
of pods.
"""

Answering = Callable[[Hooks | None], None]
"""A function that is called with the hooks of a leader once it can answer them, and with None when it stops leading."""


class Term:
    """The time in which this replica leads, with all parts that work during it. `families`: the kinds of workloads that
    can be recognised as gangs. `clock` returns monotonic seconds.
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._ledger = Ledger(clock)
        self._leader = Leader(
            kube=kube,
            slurm=slurm,
            settings=settings,
            metrics=metrics,
            queues=process.queue_metrics,
            clock=clock,
            ledger=self._ledger,
            events=EventRecorder(kube, component="scheduler", instance=process.identity.name, lost=process.lost_events),
            pods=PodWriter(kube),
        )
        self._pulse = Pulse(kube)
        process.add_alive_check("apiserver", self._pulse.problem)
        self._wake = Wake(self._ledger)
        self._outbox = Outbox(self._leader, find=lambda key: self._cluster.pods.get(*key))
        self._watch_cluster(families)
        self._group_pods(families)
        self._decide()
        self._answer_hooks()

    def _watch_cluster(self, families: Families) -> None:
        """Make the parts that watch nodes, pods, and the owners of pods, and the part that writes the phases of
        Volcano's PodGroups.
        """
        leader, on_unreadable = self._leader, self._outbox.unreadable
        self._slurm_nodes = NodeCache(leader.slurm, poll_s=leader.settings.times.nodes_each_s)
        self._slurm_nodes.add_listener(self._slurm_answered)
        self._cluster = Cluster(
            leader,
            self._slurm_nodes,
            self._wake,
            on_claim=lambda pod: self._wake.changed(self._members.find_id(pod)),
            on_free_storage=lambda pod: self._wake.later(self._members.find_id(pod)),
            on_unreadable=on_unreadable,
        )
        self._watches = OwnerWatches(
            leader.kube,
            reads=kinds_read(families),
            pods=self._cluster.pods,
            clock=leader.clock,
            on_unreadable=on_unreadable,
            metrics=leader.queues,
            times=leader.settings.times.kinds,
        )
        self._pod_groups = PodGroups(leader, self._watches, self._cluster.pods)

    def _slurm_answered(self, _: frozenset[str]) -> None:
        if self._slurm_nodes.problem is not None:  # the reads before this one failed
            self._wake.slurm_answers_again()

    def _group_pods(self, families: Families) -> None:
        """Make the parts that find the gang of each pod, and those that keep an index of the pods of each gang."""
        leader, owners = self._leader, OwnerIndex(self._watches, families)
        on_unreadable, largest = self._outbox.unreadable, self._settings.largest_gang
        recognition = Recognition(families, owners=owners, on_unreadable=on_unreadable, largest=largest)
        members = self._members = PodsByGang(recognition, owners=owners, wake=self._wake, clock=leader.clock)
        self._gangs = Gangs(
            self._settings,
            self._ledger,
            self._wake,
            members,
            recognition,
            namespace_of=self._cluster.namespace_of,
            may_claim=self._cluster.devices.may_claim,
            claimed=self._cluster.devices.claimed,
        )
        self._vanished = Vanished(leader, find_id=members.find_id)
        members.on_deletion = self._vanished.update
        self._cluster.pods.add_handler(owners.pod_changed)
        self._cluster.pods.add_handler(members.update)
        reports = Unidentified(leader, members, recognition, self._outbox)
        members.on_unidentified, members.on_relabelled = reports.unidentified, reports.relabelled
        self._suspensions = Suspensions(leader, self._watches, kinds=kinds_read(families), has_pods=members.has_living)

    def _decide(self) -> None:
        """Make the parts of a pass over a gang: those that collect what is known, decide, and carry out the
        decision.
        """
        leader, cluster, members, outbox = self._leader, self._cluster, self._members, self._outbox
        self._collector = Collector(leader, cluster, members, self._gangs)
        self._takeover = Takeover(leader, cluster, members, self._gangs)
        causes = EndCauses(leader.slurm, known=self._ledger.details, hurry=self._ledger.due.hurry)
        self._poller = JobPoller(leader, on_states=causes.saw, have_hooks=cluster.have_hooks)
        jobs = JobWriter(leader, self._takeover.jobs)
        self._lines = jobs.lines
        resource = self._settings.handed_out
        allocator = Allocator(
            leader.kube,
            leader.slurm,
            cluster.devices,
            leader.pods,
            leader.metrics,
            keeps=self._vanished.keeps,
            slurmd_of=cluster.slurmd_of,
            handout=Handout(leader.pods, resource=resource, gres=self._settings.gpu_resources.get(resource, "")),
            maker=ClaimMaker(leader.kube, cluster.devices, self._settings, leader.clock),
        )
        binder = Binder(leader, cluster, allocator, outbox)
        evictor = Evictor(leader, cluster, allocator, causes, self._suspensions, outbox)
        executor = Executor(leader, members, jobs, binder, allocator, evictor, outbox)
        self._loop = GangLoop(leader, members, self._gangs, self._takeover, self._collector, binder, executor)

    def _answer_hooks(self) -> None:
        leader, members, vanished = self._leader, self._members, self._vanished
        takeover, collector = self._takeover, self._collector
        auth = NodeAuth(leader, self._cluster)
        proof = HookProof(leader)
        gate = Gate(leader, members, takeover, collector, vanished, proof, self._poller)
        self._hooks = Hooks(leader, members, takeover, collector, vanished, auth, proof, gate.ask)

    async def run(self, answering: Answering) -> None:
        """Run all parts until cancelled: watch, take over the pods and jobs of earlier leaders, and make passes over
        gangs. `answering` gets the object that answers Prologs and Epilogs as soon as it can, and None at the end.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pulse.follow())
                # 1. Watch nodes, pods and their owners, until all that exist are known.
                group.create_task(self._cluster.run())
                group.create_task(self._watches.run())
                await self._cluster.synced()
                await self._members.wait_for_owners()
                group.create_task(self._outbox.run())
                group.create_task(self._vanished.run())
                # 2. Read the binding notes of pods. Hooks are answered from now on, before jobs are read (`takeover`).
                await self._takeover.read_notes()
                if self._settings.suspend_owners:
                    group.create_task(self._suspensions.run())
                group.create_task(self._pod_groups.run())
                answering(self._hooks)
                # 3. Follow the jobs, and take over those that an earlier leader left.
                group.create_task(self._poller.run())
                group.create_task(self._lines.run())
                group.create_task(self._takeover.run())
                # 4. Recognise the gangs that have changed, and reconcile those that a change has enqueued.
                leader, wake, collector, times = self._leader, self._wake, self._collector, self._leader.settings.times
                near, spread_s = collector.has_other_neighbours, times.recheck_spread_s
                group.create_task(recheck(leader, wake.nodes, collector.is_concerned, spread_s=spread_s))
                group.create_task(recheck(leader, wake.neighbours, near, spread_s=times.other_pods_again_s))
                recognise = run_workers(
                    self._ledger.changed, self._gangs.reconcile, workers=_WORKERS, metrics=self._leader.queues
                )
                group.create_task(recognise)
                await run_workers(
                    self._ledger.queue,
                    self._loop.reconcile,
                    workers=_WORKERS,
                    only_urgent=_ONLY_URGENT,
                    metrics=self._leader.queues,
                )
        finally:
            answering(None)

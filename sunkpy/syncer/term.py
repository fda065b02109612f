"""One term of the syncer's leadership: makes the parts, checks that this is the right Slurm cluster, and keeps its
nodes and the slurmd pods in line.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.kube.pulse import Pulse
from sunkpy.kube.trim import trim_slurmd
from sunkpy.runtime.process import Process
from sunkpy.slurm import NodeCache, Slurm
from sunkpy.slurm.cluster import check_cluster
from sunkpy.syncer.collect import Collector, pod_selector
from sunkpy.syncer.execute import Executor
from sunkpy.syncer.figures import FigureFeed
from sunkpy.syncer.growth import GrowthWriter
from sunkpy.syncer.idle_checks import IdleChecks
from sunkpy.syncer.loop import MirrorLoop
from sunkpy.syncer.metrics import SyncerMetrics
from sunkpy.syncer.outage import Outage
from sunkpy.syncer.places import Places
from sunkpy.syncer.potential import Potential
from sunkpy.syncer.queue_waker import QueueWaker
from sunkpy.syncer.queue_watch import QueueWatch
from sunkpy.syncer.service_check import ServiceCheck
from sunkpy.syncer.settings import SyncerSettings
from sunkpy.syncer.topology import Topology


class Term:
    """One term of leadership of the syncer. Only the clients, and the cache of Slurm nodes that metrics read, outlive
    it.

    `clock`: the clock of `nodes`, monotonic, in seconds.
    """

    def __init__(
        self,
        *,
        kube: Kube,
        slurm: Slurm,
        nodes: NodeCache,
        settings: SyncerSettings,
        process: Process,
        metrics: SyncerMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._process = process
        self._settings = settings
        self._slurm = slurm
        self._nodes = nodes
        namespace = settings.namespace
        selector = pod_selector(settings.cluster)
        self._pods = Informer(kube, paths.pods(namespace), Pod, label_selector=selector, keep=trim_slurmd)
        name, lost = process.identity.name, process.lost_events
        events = self._events = EventRecorder(kube, component="syncer", instance=name, lost=lost)
        self._pulse = Pulse(kube)
        process.add_alive_check("apiserver", self._pulse.problem)
        user = settings.scheduler_user
        self._figures = FigureFeed(
            slurm,
            nodes,
            settings.metrics,
            scheduler_user=user,
            nodeset_of=self._nodeset_of,
            with_waits=lambda: self._growth.is_on,
            clock=clock,
        )
        self._places = Places(kube, settings.topology, namespace=namespace, pods=self._pods)
        self._topology = Topology(
            kube, slurm, settings.topology, namespace=namespace, nodes=nodes, places=self._places, clock=clock
        )
        self._figures.add_listener(QueueWatch(kube, events, namespace=namespace, pods=self._pods, clock=clock).check)
        process.serve_figures(lambda: self._figures.text)
        self._queue_waker = QueueWaker(slurm, nodes)
        self._nodesets = Informer(kube, paths.nodesets(namespace), NodeSet)
        self._potential = Potential(
            kube,
            events,
            cluster=settings.cluster,
            namespace=namespace,
            config_map=settings.potential_config_map,
            nodesets=self._nodesets,
            pods=self._pods,
            nodes=nodes,
            topology=self._topology,
            clock=clock,
        )
        self._growth = GrowthWriter(
            kube,
            events,
            metrics,
            cluster=settings.cluster,
            nodesets=self._nodesets,
            pods=self._pods,
            read_soon=self._figures.read_soon,
            offered=lambda: self._potential.offers,
        )
        self._figures.add_listener(self._growth.check)
        idle_checks = IdleChecks(
            kube,
            slurm,
            events,
            metrics,
            settings.idle_checks,
            pods=self._pods,
            nodesets=self._nodesets,
            read_soon=self._figures.read_soon,
        )
        self._figures.add_listener(idle_checks.check)
        self._loop = MirrorLoop(
            pods=self._pods,
            nodes=nodes,
            collector=Collector(
                namespace=namespace, pods=self._pods, nodes=nodes, topology=self._topology, metrics=metrics
            ),
            outage=Outage(pods=self._pods, events=events, metrics=metrics),
            executor=Executor(
                kube=kube,
                slurm=slurm,
                events=events,
                metrics=metrics,
                namespace=namespace,
                on_refused=self._topology.refused,
                clock=clock,
            ),
            service_check=ServiceCheck(
                slurm, scheduler_user=settings.scheduler_user, timeout_s=settings.service_check_seconds
            ),
            queue_metrics=process.queue_metrics,
            clock=clock,
        )
        self._places.on_change(self._loop.places_changed)
        self._topology.on_change(self._loop.places_changed)

    async def run(self) -> None:
        """Check that this is the right Slurm cluster. Then keep its nodes and the slurmd pods in line until cancelled.

        Raises:
            WrongCluster: slurmrestd belongs to another Slurm cluster than the settings name.
        """
        settings = self._settings
        await check_cluster(self._slurm, settings.cluster)
        self._process.log.info(
            "mirroring", cluster=settings.cluster, namespace=settings.namespace, slurm=settings.slurm.url
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pulse.follow())
            group.create_task(self._events.run())
            group.create_task(self._pods.run())
            group.create_task(self._nodes.run())
            group.create_task(self._loop.run())
            group.create_task(self._queue_waker.run())
            group.create_task(self._figures.run())
            group.create_task(self._nodesets.run())
            group.create_task(self._growth.run())
            group.create_task(self._places.run())
            group.create_task(self._topology.run())
            group.create_task(self._potential.run())

    def _nodeset_of(self, node: str) -> str:
        pod = self._pods.get(self._settings.namespace, node)
        return pod.labels.get(names.LABEL_NODESET, "") if pod is not None else ""

"""One term of leadership of the operator: watches, queues, and the parts that work on them. None of them outlives the
term.
"""

from __future__ import annotations

import asyncio
from functools import partial

import structlog

from sunkpy.core.model.devices import ResourceSlice
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.nodeset.lock import Lock
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Handler, Informer
from sunkpy.kube.pulse import Pulse
from sunkpy.kube.trim import trim_node
from sunkpy.operator.asking import Asker
from sunkpy.operator.collect import Collector
from sunkpy.operator.cordon_cap import CordonCap
from sunkpy.operator.create import PodCreator
from sunkpy.operator.drain_requests import DrainRequestWatch
from sunkpy.operator.execute import Executor
from sunkpy.operator.feed import follow_nodesets
from sunkpy.operator.health import HealthWatch
from sunkpy.operator.loop import NodeLoop, NodeSetLoop, Wakes
from sunkpy.operator.memory import Memory
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.operator.node_devices import NodeDevices, trim_slice, until_slices_are_served
from sunkpy.operator.node_writer import NodeWriter
from sunkpy.operator.pod_index import PodIndex
from sunkpy.operator.remedies import RemedyWriter
from sunkpy.operator.settings import OperatorSettings
from sunkpy.operator.status_writer import StatusWriter
from sunkpy.operator.surveys import Surveys
from sunkpy.operator.trim import is_heartbeat, trim_pod
from sunkpy.runtime.process import AliveCheck, Process
from sunkpy.runtime.queue import run_workers

_CRD_AGAIN_S = 2.0
_RESYNC_OF_A_NODE_S = 0.03  # judging a node again takes 0.15 ms: half a percent of a core, however many there are


class Term:
    """One term of leadership of the operator. Its parts are built at once, and begin to work in `run`. If one task
    fails, all end.
    """

    def __init__(self, kube: Kube, process: Process, settings: OperatorSettings, metrics: OperatorMetrics) -> None:
        self._kube = kube
        self._process = process
        self._settings = settings
        self._log = structlog.get_logger("operator")
        self.pod_watch = Informer(kube, paths.ALL_PODS, Pod, keep=trim_pod, are_large=True)
        asked = settings.health
        keep = partial(trim_node, signals=asked.conditions, annotations=asked.annotations)
        self.node_watch = Informer(kube, paths.NODES, Node, keep=keep)
        self.slice_watch = Informer(
            kube, paths.RESOURCE_SLICES, ResourceSlice, keep=trim_slice, until_served=until_slices_are_served
        )
        self._wakes = Wakes()
        self._pods = pods = PodIndex()
        memory = Memory()
        name, lost = process.identity.name, process.lost_events
        events = self._events = EventRecorder(kube, component="operator", instance=name, lost=lost)
        devices = NodeDevices(self._devices_changed)
        self.slice_watch.add_handler(devices.slice_changed)
        self._pulse = Pulse(kube)
        process.add_alive_check("apiserver", self._pulse.problem)
        self.surveys = surveys = Surveys(self.node_watch, pods, devices)
        cap = CordonCap(settings.slurm_drains)
        health = HealthWatch(settings.health, metrics.health, windows_of=self._wakes.windows_of)
        collector = Collector(kube, nodes=self.node_watch, pods=pods, surveys=surveys, memory=memory)
        creator = PodCreator(kube, pods=pods, memory=memory, events=events, metrics=metrics)
        self.nodeset_loop = NodeSetLoop(
            collector=collector,
            creator=creator,
            executor=Executor(kube, creator=creator, memory=memory, events=events, metrics=metrics),
            status=StatusWriter(kube, events=events, metrics=metrics),
            memory=memory,
        )
        self.asker = Asker(kube, events, nodes=self.node_watch.values, wake=self._wakes.asks.add)
        self._requests = DrainRequestWatch(kube, asked.drain_requests, self._wakes.nodes.add)
        lock = Lock(key=settings.lock.key, is_dry_run=settings.lock.dry_run)
        self.node_loop = NodeLoop(
            collector,
            cap,
            health,
            RemedyWriter(kube, events, settings.health.rules),
            self._requests,
            NodeWriter(kube, events),
            lock,
        )
        # In this order: a key that a change wakes finds the change in the indexes.
        pods.add_handler(surveys.touch)
        for pod_changed in (pods.update, memory.pod_changed, self.asker.pod_changed, self._wakes.pod_changed):
            self.pod_watch.add_handler(pod_changed)
        for node_changed in (
            surveys.node_changed,
            cap.node_changed,
            health.node_changed,
            memory.node_changed,
            self._wakes.node_changed,
        ):
            self.node_watch.add_handler(_but_heartbeats(node_changed))

    async def run(self) -> None:
        """Run the watches and loops of this term until cancelled.

        Raises:
            ExceptionGroup: a task, such as a watch, has ended for good; the process has to be restarted.
        """
        self._process.add_ready_check("pods", _not_listed(self.pod_watch.synced))
        self._process.add_ready_check("nodes", _not_listed(self.node_watch.synced))
        await self._wait_for_crd()
        metrics, workers = self._process.queue_metrics, self._settings.workers
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pulse.follow())
            group.create_task(self._events.run())
            group.create_task(self.pod_watch.run())
            group.create_task(self.node_watch.run())
            group.create_task(self.slice_watch.run())
            group.create_task(self._requests.run())
            await self.pod_watch.synced.wait()
            await self.node_watch.synced.wait()
            group.create_task(follow_nodesets(self.nodeset_seen))
            group.create_task(self._resync())
            group.create_task(
                run_workers(self._wakes.nodesets, self.nodeset_loop.reconcile, workers=workers, metrics=metrics)
            )
            group.create_task(run_workers(self._wakes.asks, self.asker.reconcile, workers=1, metrics=metrics))
            group.create_task(
                run_workers(self._wakes.nodes, self.node_loop.reconcile, workers=workers, metrics=metrics)
            )

    def _devices_changed(self, node: str) -> None:
        self.surveys.touch(node)
        self._wakes.devices_changed(node)

    async def _wait_for_crd(self) -> None:
        """Wait until the CRD of NodeSets is installed, because kopf looks for it only once, at its start."""
        while True:
            try:
                listed = await self._kube.list_objects(paths.ALL_NODESETS, NodeSet)
            except (errors.NotFound, errors.NotServed):
                self._log.error("the API has no NodeSets yet: install the CRD (crds/sunkpy.dev_nodesets.yaml)")
            except errors.KubeError as error:
                self._log.error("cannot list NodeSets", error=str(error))
            else:
                for nodeset in listed:
                    self._pods.know(nodeset)
                return
            await asyncio.sleep(_CRD_AGAIN_S)

    def nodeset_seen(self, nodeset: NodeSet, is_gone: bool) -> None:
        """Handle a NodeSet that kopf reports: note that it exists, and queue it if it has changed."""
        self._pods.know(nodeset)
        self._wakes.nodeset_seen(nodeset, is_gone)

    async def _resync(self) -> None:
        """Have all NodeSets and Nodes looked at again from time to time, in case an event was missed."""
        while True:
            try:
                listed = await self._kube.list_objects(paths.ALL_NODESETS, NodeSet, may_be_old=True)
            except errors.KubeError as error:
                self._log.warning("NodeSets cannot be listed: they are checked again later", error=str(error))
            else:
                self.surveys.touch_all()
                self._wakes.resync_nodesets({nodeset.key for nodeset in listed})
            self._wakes.resync_nodes(self.node_watch.values())
            await asyncio.sleep(max(self._settings.resync_seconds, len(self.node_watch) * _RESYNC_OF_A_NODE_S))


def _but_heartbeats(changed: Handler[Node]) -> Handler[Node]:
    """Return a handler that passes on all changes but heartbeats: each kubelet writes its Node every five minutes,
    unchanged.
    """

    def handle(old: Node | None, new: Node | None) -> None:
        if old is None or new is None or not is_heartbeat(old, new):
            changed(old, new)

    return handle


def _not_listed(synced: asyncio.Event) -> AliveCheck:
    return lambda: None if synced.is_set() else "not listed yet"

"""The operator process: watch → queue → reconcile, for NodeSets and for Nodes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import structlog

from sunkpy.core.model.objects import Key, Node, Pod
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.kube.lease import KubeLease
from sunkpy.operator.feed import follow_nodesets
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.operator.nodes import NodeReconciler
from sunkpy.operator.nodesets import NodeSetReconciler
from sunkpy.operator.pod_index import PodIndex, is_slurmd, nodeset_key
from sunkpy.operator.settings import OperatorSettings
from sunkpy.runtime import process, settings
from sunkpy.runtime.process import Process
from sunkpy.runtime.queue import WorkQueue, run_workers

_SETTLE_S = 0.5  # pods come and go in bursts; the room they leave is looked at once per burst


def main(config_path: Path) -> None:
    """Run the operator until a signal comes.

    Raises:
        BadSettings: the settings file cannot be used.
    """
    found = settings.load(config_path, OperatorSettings)
    process.run("operator", found, lambda running: _serve(running, found))


async def _serve(running: Process, found: OperatorSettings) -> None:
    election = found.leader_election
    async with await Kube.connect() as kube:
        lock = KubeLease(
            kube,
            namespace=election.namespace or found.namespace,
            name=election.lease_name or "sunkpy-operator",
        )
        operator = Operator(kube, running, found)
        await running.lead(lock, operator.run)


class Operator:
    """The informers, the two queues, and who puts which key where."""

    def __init__(self, kube: Kube, running: Process, found: OperatorSettings) -> None:
        self._kube = kube
        self._process = running
        self._settings = found
        self._known: set[Key] = set()
        self._nodesets: WorkQueue[Key] = WorkQueue("nodesets")
        self._nodes: WorkQueue[str] = WorkQueue("nodes")
        self._pod_index = PodIndex()
        self._pod_watch = Informer(kube, paths.ALL_PODS, Pod)
        self._node_watch = Informer(kube, paths.NODES, Node)
        events = EventRecorder(kube, component="operator", instance=running.identity.name)
        self._nodeset_reconciler = NodeSetReconciler(
            kube, events, OperatorMetrics(running.registry), nodes=self._node_watch, pods=self._pod_index, now=_now
        )
        self._node_reconciler = NodeReconciler(kube, events, nodes=self._node_watch, pods=self._pod_index, now=_now)
        self._pod_watch.add_handler(self._pod_changed)
        self._node_watch.add_handler(self._node_changed)
        self._log = structlog.get_logger("operator")

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            ExceptionGroup: a watch or the feed has ended for good; the process has to be restarted.
        """
        self._process.add_ready_check("pods", lambda: None if self._pod_watch.synced.is_set() else "not listed yet")
        self._process.add_ready_check("nodes", lambda: None if self._node_watch.synced.is_set() else "not listed yet")
        await self._wait_for_crd()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pod_watch.run())
            group.create_task(self._node_watch.run())
            await self._pod_watch.synced.wait()
            await self._node_watch.synced.wait()
            group.create_task(follow_nodesets(self._nodeset_seen))
            group.create_task(self._resync())
            metrics, workers = self._process.queue_metrics, self._settings.workers
            group.create_task(
                run_workers(self._nodesets, self._nodeset_reconciler.reconcile, workers=workers, metrics=metrics)
            )
            group.create_task(
                run_workers(self._nodes, self._node_reconciler.reconcile, workers=workers, metrics=metrics)
            )

    async def _wait_for_crd(self) -> None:
        """kopf looks once for the resource it is to follow; so the CRD has to be there first."""
        while True:
            try:
                await self._kube.list_objects(paths.ALL_NODESETS, NodeSet)
            except errors.NotFound:
                self._log.error("the API has no NodeSets yet: install the CRD (crds/sunkpy.dev_nodesets.yaml)")
            except errors.KubeError as error:
                self._log.error("cannot list NodeSets", error=str(error))
            else:
                return
            await asyncio.sleep(2.0)

    async def _resync(self) -> None:
        """Look at everything now and then: what no event has told, a NodeSet deleted behind a broken watch too."""
        while True:
            try:
                listed = await self._kube.list_objects(paths.ALL_NODESETS, NodeSet)
            except errors.KubeError as error:
                self._log.warning("resync put off", error=str(error))
            else:
                for key in self._known | {nodeset.key for nodeset in listed}:
                    self._nodesets.add(key)
                self._known = {nodeset.key for nodeset in listed}
            for node in self._node_watch.values():
                self._nodes.add(node.name)
            await asyncio.sleep(self._settings.resync_seconds)

    def _nodeset_seen(self, nodeset: NodeSet, is_gone: bool) -> None:
        if is_gone:
            self._known.discard(nodeset.key)
        else:
            self._known.add(nodeset.key)
        self._nodesets.add(nodeset.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._pod_index.update(old, new)
        pod = new or old
        if pod is None:
            return
        if is_slurmd(pod):
            self._nodesets.add(nodeset_key(pod))
            if new is not None and new.is_condition_true("Ready"):
                self._nodeset_reconciler.pod_became_ready(new)
        if not is_slurmd(pod) and _room_changed(old, new):
            self._look_at_all_nodesets()
        if is_slurmd(pod) and pod.spec.node_name:
            self._nodes.add(pod.spec.node_name)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is None:
            return
        self._nodes.add(node.name)
        if old is None or new is None or _fit_facts(old) != _fit_facts(new):
            self._look_at_all_nodesets()

    def _look_at_all_nodesets(self) -> None:
        for key in self._known:
            self._nodesets.add_after(key, _SETTLE_S)


def _room_changed(old: Pod | None, new: Pod | None) -> bool:
    """A pod took or left room on a node."""
    return (old is not None and bool(old.spec.node_name) and not old.is_finished) != (
        new is not None and bool(new.spec.node_name) and not new.is_finished
    )


def _fit_facts(node: Node) -> tuple[object, ...]:
    """What feasibility and names depend on; a heartbeat changes none of it."""
    return (node.labels, node.spec, node.status.allocatable, node.status.addresses, node.is_ready)


def _now() -> datetime:
    return datetime.now(UTC)

"""The operator's passes over NodeSets and Nodes (collect, decide, execute), and which change leads to which pass. A key
is the name of an object; it waits in a queue.

watch of NodeSets (kopf) ──┐           ┌─▶ queue of asks ─────▶ Asker.reconcile ───────▶ decide_steps
watch of Pods ─────────────┼─▶ Wakes ──┼─▶ queue of NodeSets ─▶ NodeSetLoop.reconcile ─▶ decide_nodeset
watch of Nodes ────────────┤           └─▶ queue of Nodes ────▶ NodeLoop.reconcile ────▶ decide_node
resync, now and then ──────┘
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from sunkpy.core import names
from sunkpy.core.health.decide import is_being_verified
from sunkpy.core.model.objects import Key, Node, Pod
from sunkpy.core.model.quantity import BadQuantity
from sunkpy.core.model.times import utc_now
from sunkpy.core.nodeset.decide import Plan, decide_nodeset
from sunkpy.core.nodeset.emptied import token_of_question
from sunkpy.core.nodeset.lock import UNLOCKED, Lock, is_sure
from sunkpy.core.nodeset.node_side import decide_node, decide_pod_cordon
from sunkpy.core.nodeset.protection import decide_evictable
from sunkpy.core.nodeset.services import jobs_of_pods
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.nodeset.status import report, report_unreadable
from sunkpy.core.nodeset.windows import Window
from sunkpy.core.nodeset.world import World
from sunkpy.operator.collect import Collector
from sunkpy.operator.cordon_cap import CordonCap
from sunkpy.operator.create import PodCreator
from sunkpy.operator.drain_requests import DrainRequestWatch
from sunkpy.operator.execute import Executor
from sunkpy.operator.health import HealthWatch
from sunkpy.operator.memory import Memory
from sunkpy.operator.node_writer import NodeWriter
from sunkpy.operator.pod_index import nodeset_key
from sunkpy.operator.remedies import RemedyWriter
from sunkpy.operator.status_writer import StatusWriter
from sunkpy.runtime.queue import WorkQueue

_REFUSED_AGAIN_S = 15.0  # a quota or an admission rule may change without any event that we see
_NEXT_WAVE_S = 0.05  # other steps of the same key come in between
_SETTLE_S = 0.5  # pods come and go in bursts; the freed resources are checked once per burst
_GATHER_S = 0.1  # for our own pods, whose steps must not wait long


class NodeSetLoop:
    """Does in each pass what is due for one NodeSet: collect, decide, execute. Passes over several NodeSets run at
    once. A key is a NodeSet's namespace and name.
    """

    def __init__(
        self, *, collector: Collector, creator: PodCreator, executor: Executor, status: StatusWriter, memory: Memory
    ) -> None:
        self._collector = collector
        self._creator = creator
        self._executor = executor
        self._status = status
        self._memory = memory

    async def reconcile(self, key: Key) -> float | None:
        """Carry out all that is due for one NodeSet, then write its status. Return the seconds until the next pass;
        None if a change has to come first.

        Raises:
            KubeError: the apiserver did not answer, or the operator lacks a right.
        """
        nodeset = await self._collector.nodeset(key)
        if nodeset is None:
            self._status.forget(key)
            return None
        await self._executor.guard(nodeset)
        try:
            await self._creator.vet_template(nodeset, self._collector.any_node())
            await self._collector.catch_up(nodeset)
            # From here to the claim of `Executor.run` nothing is awaited: two NodeSets never take the same node.
            world = self._collector.world(nodeset)
            plan = decide_nodeset(world)
        except (msgspec.ValidationError, BadQuantity) as error:
            await self._report_unreadable(nodeset, str(error))
            return None
        late_s = await self._executor.run(nodeset, plan.actions)
        # What the apiserver refused just now belongs in this pass's report.
        world = msgspec.structs.replace(world, create_error=self._memory.refusal(nodeset))
        waits_s = [late_s, plan.requeue_after_s, await self._report(world, plan)]
        waits_s += [_REFUSED_AGAIN_S] if world.create_error else [_NEXT_WAVE_S] if plan.is_partial else []
        return min((wait_s for wait_s in waits_s if wait_s is not None), default=None)

    async def _report(self, world: World, plan: Plan) -> float | None:
        """Write the NodeSet's status and its Events. If the last status is too recent, write nothing and return after
        how many seconds to try again; else None.
        """
        due_in_s = self._status.due_in_s(world.nodeset)
        if due_in_s > 0:
            return due_in_s
        await self._status.write(world.nodeset, *report(world, plan))
        return None

    async def _report_unreadable(self, nodeset: NodeSet, problem: str) -> None:
        status, notices = report_unreadable(nodeset, problem, utc_now())
        await self._status.write(nodeset, status, notices)


class NodeLoop:
    """Does in each pass what is due for one Node: writes the Node's state onto its slurmd pod, and the pod's report
    onto the Node. Passes over several Nodes run at once. A key is a Node's name.
    """

    def __init__(
        self,
        collector: Collector,
        cordon_cap: CordonCap,
        health: HealthWatch,
        remedies: RemedyWriter,
        requests: DrainRequestWatch,
        writer: NodeWriter,
        lock: Lock = UNLOCKED,
    ) -> None:
        self._requests = requests
        self._lock = lock
        self._health = health
        self._remedies = remedies
        self._collector = collector
        self._cordon_cap = cordon_cap
        self._writer = writer

    async def reconcile(self, name: str) -> float | None:
        """Write the Node's cordon, and the question whether anything runs there, onto its slurmd pod. Then write the
        pod's report and the next step of its health onto the Node. Return the seconds until the next pass; None if a
        change has to come first.
        """
        node, pod = self._collector.node_and_pod(name)
        if pod is not None:
            annotations = {**decide_pod_cordon(node, pod), **self._question(node, pod)}
            labels = decide_evictable(node, pod)
            if annotations or labels:
                late_s = await self._writer.patch_pod(pod, annotations=annotations, labels=labels)
                if late_s is not None:
                    return late_s
                node, pod = self._collector.node_and_pod(name)
        if node is None:
            return None
        occupants = self._collector.occupants(name)
        has_jobs = not is_sure(pod) and bool(jobs_of_pods(occupants))
        patch = decide_node(node, pod, self._cordon_cap.marking(node, pod), self._lock, has_jobs=has_jobs)
        if patch.marks and pod is not None:
            self._cordon_cap.note(node, pod)
        step = self._health.step(self._requests.add_to(node), pod, occupants)
        patch = msgspec.structs.replace(patch, annotations={**patch.annotations, **step.changes})
        waits_s = [
            await self._remedies.ensure(node, step),
            await self._requests.answer(node, pod, occupants),
            await self._writer.patch_node(node, patch, step),
            step.again_s,
        ]
        return min((wait_s for wait_s in waits_s if wait_s is not None), default=None)

    def _question(self, node: Node | None, pod: Pod) -> dict[str, str | None]:
        """Return the change of the slurmd pod's annotation that asks the syncer whether anything runs there, or stops
        asking; empty if the annotation is right.
        """
        if node is None:
            return {}
        asked = names.ANNOTATION_DRAIN_ASKED
        is_asked = self._health.asks(node, pod) or self._requests.is_waited(node)
        if is_asked is None:  # until requests are listed, a question of theirs stays
            is_asked = asked in pod.annotations
        question = token_of_question(node) if is_asked else None
        return {} if pod.annotations.get(asked) == question else {asked: question}


class Wakes:
    """The queues of NodeSets and Nodes to look at, and the handlers of watches that put keys into these queues."""

    def __init__(self, *, settle_s: float = _SETTLE_S, gather_s: float = _GATHER_S) -> None:
        self._settle_s = settle_s
        self._gather_s = gather_s
        self.nodesets: WorkQueue[Key] = WorkQueue("nodesets")
        self.nodes: WorkQueue[str] = WorkQueue("nodes")
        self.asks: WorkQueue[Key] = WorkQueue("asks")
        self._known: dict[Key, NodeSet | None] = {}

    def nodeset_seen(self, nodeset: NodeSet, is_gone: bool) -> None:
        """Queue a NodeSet that kopf reports, unless nothing that matters has changed, as when the operator wrote the
        status itself.
        """
        known = self._known.pop(nodeset.key, None)
        if not is_gone:
            self._known[nodeset.key] = nodeset
        if is_gone or known is None or _asked_for(known) != _asked_for(nodeset):
            self.nodesets.add(nodeset.key)
        if is_gone or known is None or _wanted(known) != _wanted(nodeset):
            self.asks.add(nodeset.key)

    def windows_of(self, pod: Pod) -> Sequence[Window] | None:
        """Return the maintenance windows in which a roll may take nodes of the pod's NodeSet (empty: always); None if
        the NodeSet is not known.
        """
        key = nodeset_key(pod)
        nodeset = self._known.get(key) if key is not None else None
        return nodeset.spec.update_strategy.rolling_update.windows if nodeset is not None else None

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Queue NodeSet and Node of a changed slurmd pod. If another pod took or freed room, queue all NodeSets; if a
        job's pod is gone, queue its Node.
        """
        pod = new or old
        if pod is None:
            return
        key = nodeset_key(pod)
        if key is None:
            if _has_room_changed(old, new):
                self._wake_all_nodesets()
            if old is not None and jobs_of_pods([old]) and not (new is not None and jobs_of_pods([new])):
                self.nodes.add(old.spec.node_name)  # the Node's lock or annotations may have stayed for it
            return
        self.nodesets.add_after(key, self._gather_s)
        if pod.spec.node_name:
            self.nodes.add(pod.spec.node_name)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Queue a Node that changed. If the change may decide which NodeSets the Node fits, queue all NodeSets too."""
        node = new or old
        if node is None:
            return
        self.nodes.add(node.name)
        if old is None or new is None or _fit_facts(old) != _fit_facts(new):
            self._wake_all_nodesets()

    def devices_changed(self, _: str) -> None:
        """Queue all NodeSets, because a device driver now offers other devices of a node."""
        self._wake_all_nodesets()

    def resync_nodesets(self, listed: set[Key]) -> None:
        """Queue all NodeSets that are listed, and those whose deletion a broken watch has missed: they are known, but
        not listed.
        """
        for key in self._known.keys() | listed:
            self.nodesets.add(key)
            self.asks.add(key)
        self._known = {key: self._known.get(key) for key in listed}

    def resync_nodes(self, nodes: Iterable[Node]) -> None:
        """Queue these Nodes, in case an event about one was missed."""
        for node in nodes:
            self.nodes.add(node.name)

    def _wake_all_nodesets(self) -> None:
        for key in self._known:
            self.nodesets.add_after(key, self._settle_s)


def _asked_for(nodeset: NodeSet) -> tuple[object, ...]:
    """Return the parts of a NodeSet that a pass reads, to compare two versions: with `status.growth` if it releases
    idle nodes.
    """
    meta = nodeset.metadata
    growth = nodeset.status.growth if nodeset.spec.releases else None
    return (meta.uid, nodeset.is_deleting, meta.annotations, meta.finalizers, nodeset.spec, growth)


def _wanted(nodeset: NodeSet) -> tuple[object, ...]:
    """Return the parts of a NodeSet that decide which nodes autoscalers are asked for, to compare two versions."""
    growth = nodeset.status.growth
    return (nodeset.uid, nodeset.is_deleting, nodeset.spec, growth.without_time if growth is not None else None)


def _has_room_changed(old: Pod | None, new: Pod | None) -> bool:
    return _takes_room(old) != _takes_room(new)


def _takes_room(pod: Pod | None) -> bool:
    return pod is not None and bool(pod.spec.node_name) and not pod.is_finished


def _fit_facts(node: Node) -> tuple[object, ...]:
    """Return the parts of a Node that decide which NodeSets it fits and its pod's name, to compare two versions. A
    heartbeat changes none of them.
    """
    leaving = (node.is_deleting, names.ANNOTATION_EMPTIED in node.annotations, is_being_verified(node))
    released = node.annotations.get(names.ANNOTATION_RELEASED)
    return (node.labels, node.spec, node.status.allocatable, node.status.addresses, node.is_ready, leaving, released)

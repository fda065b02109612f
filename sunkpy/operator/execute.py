"""Carries out what was decided for a NodeSet, as writes to the apiserver.

A write to a pod or NodeSet names the version on which it was decided (resourceVersion). If the object has changed, the
write fails and does no harm, and the next pass decides again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import structlog

from sunkpy.core import names
from sunkpy.core.model import hostlist
from sunkpy.core.model.objects import Pod
from sunkpy.core.nodeset.actions import (
    AddFinalizer,
    AnnotateJobs,
    CancelPending,
    CreatePod,
    DeletePod,
    FinalizerStep,
    MarkPending,
    NodeSetAction,
    RemovalStep,
    RemoveFinalizer,
)
from sunkpy.core.nodeset.node_mark import Changes
from sunkpy.core.nodeset.protection import budget_name, build_budget
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.operator import bodies
from sunkpy.operator.create import PodCreator
from sunkpy.operator.memory import Memory
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.operator.window import MOST_AT_ONCE, work_through

_TOO_LATE_AGAIN_S = 1.0  # the watch will normally bring the newer object before that


class Executor:
    """Carries out actions on NodeSets and slurmd pods, such as deletions. `PodCreator` creates the pods."""

    def __init__(
        self, kube: Kube, *, creator: PodCreator, memory: Memory, events: EventRecorder, metrics: OperatorMetrics
    ) -> None:
        self._kube = kube
        self._creator = creator
        self._memory = memory
        self._events = events
        self._metrics = metrics
        self._log = structlog.get_logger("nodeset")

    async def run(self, nodeset: NodeSet, actions: Sequence[NodeSetAction]) -> float | None:
        """Carry out the actions. Return the seconds until the next pass if an action came too late, because its object
        had changed; else None.

        Call this right after the decision, without an await between the two: then two NodeSets never take the same
        node.
        """
        with self._memory.claim(actions) as creations:
            others = [action for action in actions if not isinstance(action, CreatePod)]
            late: list[FinalizerStep | RemovalStep] = []

            async def run_one(action: FinalizerStep | RemovalStep) -> bool:
                late.extend([] if await self._run_one(nodeset, action) else [action])
                return True

            await work_through([action for action in others if isinstance(action, FinalizerStep)], run_one, at_first=1)
            removals = [action for action in others if isinstance(action, RemovalStep)]
            await work_through(removals, run_one, at_first=MOST_AT_ONCE)
            await self._creator.create_all(nodeset, creations)
        await self._report_removals(nodeset, others)
        return _TOO_LATE_AGAIN_S if late else None

    async def guard(self, nodeset: NodeSet) -> None:
        """Write the NodeSet's PodDisruptionBudget, again every few minutes, because somebody may have deleted it."""
        if nodeset.is_deleting or self._memory.is_guarded(nodeset):
            return
        path = paths.disruption_budget(nodeset.metadata.namespace, budget_name(nodeset))
        try:
            await self._kube.apply(path, build_budget(nodeset), field_manager="sunkpy-operator")
        except (errors.Forbidden, errors.Invalid) as error:
            # Pods are created without the budget too; but then evictions are not held back.
            self._log.error("pods are not protected from eviction", nodeset=nodeset.name, error=str(error))
        self._memory.note_guarded(nodeset)

    async def _run_one(self, nodeset: NodeSet, action: FinalizerStep | RemovalStep) -> bool:
        """Carry out one action. Return False if it has to be decided again, because its pod or NodeSet has changed
        since the decision, or because a NodeSet that is to lose sunkpy's finalizer still has pods in the apiserver.
        """
        try:
            return await self._write(nodeset, action)
        except errors.NotFound:
            return True  # gone already: the watch will say so
        except errors.Conflict:
            return False

    async def _write(self, nodeset: NodeSet, action: FinalizerStep | RemovalStep) -> bool:
        match action:
            case AddFinalizer():
                finalizers = [*nodeset.metadata.finalizers, names.FINALIZER_NODESET]
                await self._patch(nodeset, finalizers, {names.ANNOTATION_SYNC_WAVE: names.GOES_FIRST})
            case RemoveFinalizer():
                return await self._remove_finalizer(nodeset)
            case MarkPending(pod, token):
                await self._mark(pod, {names.ANNOTATION_PENDING_DELETION: token.encode()})
            case CancelPending(pod):
                await self._mark(pod, {names.ANNOTATION_PENDING_DELETION: None, names.ANNOTATION_JOBS: None})
            case AnnotateJobs(pod, jobs):
                await self._mark(pod, {names.ANNOTATION_JOBS: jobs or None})
            case DeletePod(pod, why):
                await self._delete(nodeset, pod, why)
        return True

    async def _mark(self, pod: Pod, annotations: Changes) -> None:
        body = bodies.pod_metadata(pod, annotations=annotations, as_seen=True)
        await self._kube.patch(paths.pod(*pod.key), body)

    async def _delete(self, nodeset: NodeSet, pod: Pod, why: str) -> None:
        version = pod.metadata.resource_version
        await self._kube.delete(paths.pod(*pod.key), uid=pod.uid, resource_version=version)
        self._metrics.deleted.labels(*nodeset.key, why).inc()
        if why == "failed":
            self._memory.note_failure(nodeset, pod)
            note = f"pod {pod.name} failed: {pod.status.reason} {pod.status.message}".strip()
            await self._events.warning(nodeset, names.NODESET_KIND, reason="PodFailed", action="Replace", note=note)

    async def _patch(self, nodeset: NodeSet, finalizers: Sequence[str], annotations: Mapping[str, str]) -> None:
        version = nodeset.metadata.resource_version
        metadata = {"resourceVersion": version, "finalizers": list(finalizers), "annotations": annotations}
        await self._kube.patch(paths.nodeset(*nodeset.key), {"metadata": metadata})

    async def _remove_finalizer(self, nodeset: NodeSet) -> bool:
        """Remove sunkpy's finalizer from the NodeSet. Return False, and remove nothing, if the apiserver still lists a
        pod of it.
        """
        path = paths.pods(nodeset.metadata.namespace)
        if any(map(nodeset.owns, await self._kube.list_objects(path, Pod, label_selector=nodeset.pod_selector))):
            return False
        kept = [name for name in nodeset.metadata.finalizers if name != names.FINALIZER_NODESET]
        await self._patch(nodeset, kept, {})
        return True

    async def _report_removals(self, nodeset: NodeSet, actions: Iterable[NodeSetAction]) -> None:
        for said, pods in group_removals(actions).items():
            span = hostlist.describe(pods)
            self._log.info(said.text, nodeset=nodeset.name, namespace=nodeset.metadata.namespace, pods=span)
            note = f"{span} {said.text}"
            await self._events.normal(nodeset, names.NODESET_KIND, reason=said.reason, action="Remove", note=note)


class PodEvent(msgspec.Struct, frozen=True):
    """The reason and text of an Event about pods; the pods' names stand before the text."""

    reason: str
    text: str


def group_removals(actions: Iterable[NodeSetAction]) -> dict[PodEvent, list[str]]:
    """Return the Events about pods marked for removal, unmarked or deleted, each with the names of its pods: one Event
    for a hundred pods.
    """
    groups: dict[PodEvent, list[str]] = {}
    for action in actions:
        match action:
            case MarkPending(pod, token):
                said = PodEvent("PodsDraining", f"will be removed ({token.cause}) once drained")
            case CancelPending(pod):
                said = PodEvent("RemovalCancelled", "will not be removed")
            case DeletePod(pod, why):
                said = PodEvent("PodsDeleted", f"deleted ({why})")
            case _:
                continue
        groups.setdefault(said, []).append(pod.name)
    return groups

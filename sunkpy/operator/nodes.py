"""One Node at a time: its slurmd pod's facts onto the Node, the Node's cordon onto the pod."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.times import rfc3339
from sunkpy.core.nodeset.node_side import decide_node, decide_pod_cordon
from sunkpy.core.nodeset.protection import decide_evictable
from sunkpy.kube import errors, paths
from sunkpy.kube.client import STRATEGIC_PATCH, Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.operator import bodies
from sunkpy.operator.pod_index import PodIndex

_TOO_LATE_AGAIN_S = 0.1  # the watch will normally bring the newer Node before that


class NodeReconciler:
    """Runs the decisions about the node of a key and its slurmd pod, and writes what they say."""

    def __init__(
        self,
        kube: Kube,
        events: EventRecorder,
        *,
        nodes: Informer[Node],
        pods: PodIndex,
        now: Callable[[], datetime],
    ) -> None:
        self._kube = kube
        self._events = events
        self._nodes = nodes
        self._pods = pods
        self._now = now

    async def reconcile(self, name: str) -> float | None:
        """Bring one Node and its slurmd pod in line; a write that came too late is made again from what is new."""
        node, pod = self._nodes.get("", name), self._pods.slurmd_on(name)
        if pod is not None:
            await self._tell_pod(node, pod)
        if node is not None:
            return await self._tell_node(node, pod)
        return None

    async def _tell_pod(self, node: Node | None, pod: Pod) -> None:
        annotations, labels = decide_pod_cordon(node, pod), decide_evictable(node, pod)
        if not annotations and not labels:
            return
        body = bodies.pod_metadata(pod, annotations=annotations, labels=labels, as_seen=False)
        try:
            await self._kube.patch(paths.pod(*pod.key), body)
        except errors.NotFound:
            return  # gone meanwhile: the watch will say so

    async def _tell_node(self, node: Node, pod: Pod | None) -> float | None:
        patch = decide_node(node, pod)
        path = paths.node(node.name)
        try:
            if patch.touches_object:
                await self._kube.patch(path, bodies.node_object(node, patch))
            if patch.touches_status:
                now = rfc3339(self._now())
                await self._kube.patch(
                    paths.status(path), bodies.node_status(node, patch, now), content_type=STRATEGIC_PATCH
                )
        except errors.NotFound:
            return None
        except errors.Conflict:
            return _TOO_LATE_AGAIN_S
        if patch.unschedulable is not None:
            await self._say_cordon(node, unschedulable=patch.unschedulable, reason=patch.annotations)
        return None

    async def _say_cordon(self, node: Node, *, unschedulable: bool, reason: object) -> None:
        why = reason.get(names.ANNOTATION_DRAIN) if isinstance(reason, dict) else None
        why = why or node.annotations.get(names.ANNOTATION_DRAIN, "")
        if unschedulable:
            note = f"cordoned, because the node is drained in Slurm: {why}"
            await self._events.normal(node, "Node", reason="SlurmCordon", action="Cordon", note=note)
        else:
            note = f"uncordoned, because Slurm has lifted the drain: {why}"
            await self._events.normal(node, "Node", reason="SlurmUncordon", action="Uncordon", note=note)

"""Writes to the apiserver what was decided about a Node and its slurmd pod."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sunkpy.core import names
from sunkpy.core.health import HealthStep
from sunkpy.core.health.words import news_of
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.core.nodeset.node_mark import Changes
from sunkpy.core.nodeset.node_side import NodePatch
from sunkpy.kube import errors, paths
from sunkpy.kube.client import STRATEGIC_PATCH, Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.operator import bodies

_HELD_AGAIN_S = 15.0
_TOO_LATE_AGAIN_S = 0.1  # the watch will normally bring the newer object before that


class NodeWriter:
    """Patches Nodes, unless they have changed since they were read, and those annotations and labels of slurmd pods
    that come from the Node.
    """

    def __init__(self, kube: Kube, events: EventRecorder, *, now: Callable[[], datetime] = utc_now) -> None:
        self._kube = kube
        self._events = events
        self._now = now

    async def patch_pod(self, pod: Pod, *, annotations: Changes, labels: Changes) -> float | None:
        """Write what the Node says onto its slurmd pod. Nobody else writes these keys, so it does not matter if the pod
        has changed.

        If the patch sets the label that allows an eviction, nothing is written if the pod has changed, because that
        label depends on the state of Slurm.

        Returns:
            After how many seconds to look again, because the pod had changed; else None.
        """
        opens = labels.get(names.LABEL_EVICTABLE) is not None
        body = bodies.pod_metadata(pod, annotations=annotations, labels=labels, as_seen=opens)
        try:
            await self._kube.patch(paths.pod(*pod.key), body)
        except errors.NotFound:
            return None  # gone meanwhile: the watch will say so
        except errors.Conflict:
            return _TOO_LATE_AGAIN_S
        return None

    async def patch_node(self, node: Node, patch: NodePatch, step: HealthStep | None = None) -> float | None:
        """Write the patch, unless the Node has changed since it was read. `step`: the change of its health that the
        patch contains.

        Returns:
            After how many seconds to look again, because the Node had changed, or because too many Nodes are closed
            already, so that this one was not cordoned or tainted; else None.
        """
        path = paths.node(node.name)
        try:
            if patch.touches_object:
                await self._kube.patch(path, bodies.node_object(node, patch))
            if patch.touches_status:
                body = bodies.node_status(node, patch, rfc3339(self._now()))
                await self._kube.patch(paths.status(path), body, content_type=STRATEGIC_PATCH)
        except errors.NotFound:
            return None
        except errors.Conflict:
            return _TOO_LATE_AGAIN_S
        if patch.unschedulable is not None:
            await self._report_cordon(node, patch)
        if step is not None:
            await self._report_health(node, step)
        if not patch.is_held:
            return None
        note = "drained in Slurm but not cordoned: too many Nodes are already closed because of Slurm"
        await self._events.warning(node, "Node", reason="TooManyAtOnce", action="Cordon", note=note)
        return _HELD_AGAIN_S

    async def _report_health(self, node: Node, step: HealthStep) -> None:
        news = news_of(step, node.name)
        if news is not None:
            write = self._events.warning if news.is_warning else self._events.normal
            await write(node, "Node", reason=news.reason, action="Health", note=news.note)

    async def _report_cordon(self, node: Node, patch: NodePatch) -> None:
        why = patch.annotations.get(names.ANNOTATION_DRAIN) or node.annotations.get(names.ANNOTATION_DRAIN, "")
        if patch.unschedulable:
            note = f"cordoned, because the node is drained in Slurm: {why}"
            await self._events.normal(node, "Node", reason="SlurmCordon", action="Cordon", note=note)
        else:
            note = f"uncordoned, because no drain in Slurm asks for a cordon any more. The drain was: {why}"
            await self._events.normal(node, "Node", reason="SlurmUncordon", action="Uncordon", note=note)

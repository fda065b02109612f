"""Carries out what the mirror decided. Each write may be repeated, and each is guarded.

The watch of pods may lag, so what would do harm (lifting a drain, draining or deleting for want of a pod) is checked
with the apiserver itself. What nobody announced comes out of a budget: a misread world does little harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from sunkpy.core.mirror import (
    Budget,
    DeleteSlurmNode,
    DrainNode,
    MirrorAction,
    PatchPod,
    SetComment,
    UndrainNode,
)
from sunkpy.core.mirror.drain_cause import Want, drain_cause
from sunkpy.core.model.conditions import as_json, stamped
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.kube import errors as kube_errors
from sunkpy.kube import paths
from sunkpy.kube.client import STRATEGIC_PATCH, Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.slurm import NodeChange, Slurm
from sunkpy.slurm import errors as slurm_errors
from sunkpy.syncer.metrics import SyncerMetrics


class Executor:
    """Writes to Slurm and to slurmd pods, and tells of them by log, metric and Event."""

    def __init__(
        self,
        *,
        kube: Kube,
        slurm: Slurm,
        events: EventRecorder,
        metrics: SyncerMetrics,
        namespace: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._slurm = slurm
        self._events = events
        self._metrics = metrics
        self._namespace = namespace
        self._clock = clock
        self._budget = Budget()
        self._log = structlog.get_logger("syncer")

    async def spend_budget(self, action: MirrorAction, pod: Pod | None, *, nodes: int) -> bool:
        """May it be done now? What nobody announced is taken from the budget of so many Slurm nodes, or put off."""
        if not isinstance(action, DrainNode | DeleteSlurmNode) or action.is_announced:
            return True
        self._budget, is_allowed = self._budget.spend(nodes=nodes, now_s=self._clock())
        if not is_allowed:
            await self._tell_capped(action, pod)
        return is_allowed

    async def run(self, action: MirrorAction, pod: Pod | None) -> bool:
        """Carry out one action; True when Slurm was written to.

        Raises:
            KubeError, SlurmError: not done; decide again later.
        """
        match action:
            case PatchPod():
                await self._patch_pod(action)
                return False
            case DrainNode(name=name, reason=reason):
                if pod is None and await self._pod(name) is not None:
                    return False
                await self._slurm.drain_node(name, reason)
                await self._tell(action, pod, "SlurmNodeDrained", f"Slurm node {name} drained: {reason}")
            case UndrainNode(name=name, pod=decided_on):
                if not await self._may_lift(name, decided_on):
                    return False
                await self._slurm.undrain_node(name)
                await self._tell(action, pod, "SlurmNodeUndrained", f"Slurm node {name} takes jobs again")
            case SetComment(name=name, comment=comment):
                await self._slurm.update_node(name, NodeChange(comment=comment))
                await self._tell(action, None, "SlurmNodeOwned", comment)
            case DeleteSlurmNode(name=name):
                return await self._delete(action, name)
        return True

    async def _delete(self, action: MirrorAction, name: str) -> bool:
        if await self._pod(name) is not None:
            return False
        try:
            await self._slurm.delete_node(name)
        except slurm_errors.NotFound:
            return True
        await self._tell(action, None, "SlurmNodeDeleted", f"Slurm node {name} deleted: its pod is gone")
        return True

    async def _may_lift(self, name: str, decided_on: Pod) -> bool:
        """The watch may lag: ask the apiserver whether nothing speaks for the drain any more."""
        pod = await self._pod(name)
        return pod is not None and pod.uid == decided_on.uid and drain_cause(pod, unready_for_s=0).want is Want.LIFT

    async def _pod(self, name: str) -> Pod | None:
        try:
            return await self._kube.get(paths.pod(self._namespace, name), Pod)
        except kube_errors.NotFound:
            return None

    async def _patch_pod(self, action: PatchPod) -> None:
        """Annotations and conditions in one write: the status subresource of pods takes both."""
        pod = action.pod
        now = rfc3339(utc_now())
        body: dict[str, object] = {
            "metadata": {"uid": pod.uid, "annotations": action.annotations},
            "status": {"conditions": [as_json(stamped(c, pod.condition(c.type), now)) for c in action.conditions]},
        }
        path = paths.status(paths.pod(pod.metadata.namespace, pod.name))
        try:
            await self._kube.patch(path, body, content_type=STRATEGIC_PATCH)
        except kube_errors.NotFound:
            return
        self._metrics.actions.labels("PatchPod").inc()

    async def _tell_capped(self, action: DrainNode | DeleteSlurmNode, pod: Pod | None) -> None:
        kind = type(action).__name__
        note = f"{kind} {action.name} put off: too many nodes lost their pods or their readiness within a minute"
        self._metrics.capped.labels(kind).inc()
        self._log.error(note)
        if pod is not None:
            await self._events.warning(pod, "Pod", reason="TooManyAtOnce", action=kind, note=note)

    async def _tell(self, action: MirrorAction, pod: Pod | None, reason: str, note: str) -> None:
        kind = type(action).__name__
        self._metrics.actions.labels(kind).inc()
        self._log.info(note, action=kind)
        if pod is not None:
            await self._events.normal(pod, "Pod", reason=reason, action=kind, note=note)

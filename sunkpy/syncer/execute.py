"""Carries out what `core.mirror` decided about Slurm nodes and slurmd pods. Each write is guarded, and may be repeated.

The watch of pods may lag, so the apiserver is asked before a drain is lifted, and before a node without a pod is
drained or deleted. The poll of Slurm lags by up to a second, so the node is read again right before each write
(`syncer.slurm_writer`), and before a pod gets a receipt, the note that its node is drained and idle. A budget limits
the actions that no removal or cordon has announced, so a wrong answer does little harm. An action that was not done is
given back to the budget.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta

import structlog

from sunkpy.core import names
from sunkpy.core.mirror import (
    ActionBudget,
    DeleteSlurmNode,
    DrainNode,
    LiftDrain,
    MirrorAction,
    PatchPod,
    RestoreDrain,
    ResumeNode,
    SetAddress,
    SetComment,
    SetTopology,
    SlurmAction,
    UndrainNode,
)
from sunkpy.core.mirror.drain_cause import Want, drain_cause
from sunkpy.core.model.conditions import as_json, stamped
from sunkpy.core.model.drain_reason import UNKILLABLE
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.slurmd import nodeset_of
from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.core.topology.places import problem_told
from sunkpy.kube import errors as kube_errors
from sunkpy.kube import paths
from sunkpy.kube.client import STRATEGIC_PATCH, Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import NotFound, Rejected
from sunkpy.syncer.metrics import SyncerMetrics
from sunkpy.syncer.slurm_writer import SlurmWriter, WriteOutcome

_REQUESTS_AT_ONCE = 16
"""The most requests to the apiserver at a time, for all names together."""
_LOOKS_AT_ONCE = 4
"""The most reads of Slurm nodes before receipts at a time, so that connections are left for the poll."""


class Executor:
    """Writes to Slurm and to slurmd pods, and reports each write by log, metric and Event."""

    def __init__(
        self,
        *,
        kube: Kube,
        slurm: Slurm,
        events: EventRecorder,
        metrics: SyncerMetrics,
        namespace: str,
        on_refused: Callable[[str, str], None] = lambda name, topology: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._slurm = slurm
        self._writer = SlurmWriter(slurm, clock=clock)
        self._looks = asyncio.Semaphore(_LOOKS_AT_ONCE)
        self._requests = asyncio.Semaphore(_REQUESTS_AT_ONCE)
        self._events = events
        self._metrics = metrics
        self._namespace = namespace
        self._on_refused = on_refused
        self._clock = clock
        self._budget = ActionBudget()
        self._log = structlog.get_logger("syncer")

    async def spend_budget(self, action: MirrorAction, pod: Pod | None, *, nodes: int) -> bool:
        """Return whether the action may be done now. If too many nodes were drained or deleted in the last minute
        without an announcing cordon or removal, such an action is postponed. `nodes`: how many nodes Slurm has.
        """
        if isinstance(action, PatchPod) or not _is_budgeted(action):
            return True
        self._budget, is_allowed = self._budget.spend(nodes=nodes, now_s=self._clock())
        if not is_allowed:
            await self._report_capped(action, pod)
        return is_allowed

    async def run(self, action: MirrorAction, pod: Pod | None) -> bool:
        """Carry out one action. Return True if Slurm was written to, or has changed since the decision.

        Raises:
            KubeError, SlurmError: the action was not done; decide again later.
        """
        if isinstance(action, PatchPod):
            if _gives_receipt(action) and not await self._is_drained(action.pod.name):
                return True
            await self._patch_pod(action)
            return False
        outcome = WriteOutcome.CHANGED
        try:
            outcome = await self._writer.write(action, lambda: self._has_consent(action, pod))
        except NotFound:
            if not isinstance(action, DeleteSlurmNode):
                raise
        except Rejected as error:
            if not isinstance(action, SetTopology):
                raise
            self._on_refused(action.name, action.topology)
            self._log.warning(
                "Slurm refuses the place of a node: its topology file may lack this place", error=str(error)
            )
            return True
        finally:
            if outcome is not WriteOutcome.WRITTEN and _is_budgeted(action):
                self._budget = self._budget.give_back()
        if outcome is WriteOutcome.WRITTEN:
            await self._report_write(action, pod)
        return outcome is not WriteOutcome.REFUSED

    async def _has_consent(self, action: SlurmAction, pod: Pod | None) -> bool:
        """True if a write to Slurm still has its reason. If that depends on a pod, the apiserver is asked, because the
        watch of pods may lag.
        """
        match action:
            case DrainNode(name=name) if pod is None:
                return await self._pod(name) is None
            case DeleteSlurmNode(name=name):
                return await self._pod(name) is None
            case UndrainNode(name=name, pod=decided_on) | ResumeNode(name=name, pod=decided_on):
                return await self._may_lift(name, decided_on)
            case LiftDrain(name=name, reason=reason, pod=decided_on):
                return await self._may_lift(name, decided_on, leave=reason)
            case _:
                return True

    async def _report_write(self, action: SlurmAction, pod: Pod | None) -> None:
        match action:
            case DrainNode(name=name, reason=reason):
                await self._report(action, pod, "SlurmNodeDrained", f"Slurm node {name} drained: {reason}")
            case RestoreDrain(name=name, reason=reason):
                note = f"Slurm lost its record of node {name} and its drain, which is set again: {reason}"
                await self._report(action, pod, "SlurmDrainRestored", note)
            case UndrainNode(name=name):
                await self._report(action, pod, "SlurmNodeUndrained", f"Slurm node {name} takes jobs again")
            case LiftDrain(name=name, reason=reason):
                note = f"Slurm node {name} takes jobs again: a rule of health.signals lifts this drain: {reason}"
                await self._report(action, pod, "SlurmDrainLifted", note)
            case ResumeNode(name=name, reason=reason):
                why = reason or "without a reason"
                note = (
                    f"Slurm had set node {name} DOWN ({why}); its slurmd has registered again, so it takes jobs again"
                )
                await self._report(action, pod, "SlurmNodeResumed", note)
            case SetComment(comment=comment):
                await self._report(action, None, "SlurmNodeOwned", comment)
            case SetAddress(name=name, address=address):
                note = f"Slurm used the address of an earlier pod for node {name}, and uses {address} now"
                await self._report(action, pod, "SlurmNodeReaddressed", note)
            case SetTopology(name=name, topology=topology):
                note = f"Slurm node {name} is at {topology or 'no place'} in the topology"
                await self._report(action, None, "SlurmNodePlaced", note)
            case DeleteSlurmNode(name=name):
                await self._report(action, None, "SlurmNodeDeleted", f"Slurm node {name} deleted: its pod is gone")

    async def _may_lift(self, name: str, decided_on: Pod, *, leave: str | None = None) -> bool:
        """True if the node's drain may be lifted: the apiserver has the same pod, and nothing on it asks for a drain.
        `leave`: the value that the pod's annotation `sunkpy.dev/health-lift` must have, by which the operator allows
        the syncer to lift somebody else's drain; None: the annotation does not count.
        """
        pod = await self._pod(name)
        if pod is None or pod.uid != decided_on.uid or drain_cause(pod, unready_for_s=0).want is not Want.LIFT:
            return False
        return leave is None or pod.annotations.get(names.ANNOTATION_HEALTH_LIFT) == leave

    async def _pod(self, name: str) -> Pod | None:
        try:
            async with self._requests:
                return await self._kube.get(paths.pod(self._namespace, name), Pod)
        except kube_errors.NotFound:
            return None

    async def _is_drained(self, name: str) -> bool:
        """True if Slurm, when it is asked for this node alone, says that the node is drained and idle or does not
        exist. An answer about all nodes may be older than it seems, because slurmctld decides by its own clock what has
        changed.
        """
        try:
            async with self._looks:
                return (await self._slurm.node(name)).is_drained
        except NotFound:
            return True

    async def _patch_pod(self, action: PatchPod) -> None:
        """Write annotations and conditions of a pod in one request: the status subresource of pods takes both."""
        pod = action.pod
        now = rfc3339(utc_now())
        annotations = action.annotations | _receipt_time(action)
        body: dict[str, object] = {
            "metadata": {"uid": pod.uid, "annotations": annotations},
            "status": {"conditions": [as_json(stamped(c, pod.condition(c.type), now)) for c in action.conditions]},
        }
        path = paths.status(paths.pod(pod.metadata.namespace, pod.name))
        try:
            async with self._requests:
                await self._kube.patch(path, body, content_type=STRATEGIC_PATCH)
        except kube_errors.NotFound:
            return
        self._metrics.actions.labels("PatchPod").inc()
        await self._report_unkillable(pod, action.annotations.get(names.ANNOTATION_DRAIN) or "")
        await self._report_unplaced(pod, action.annotations.get(names.ANNOTATION_TOPOLOGY) or "")

    async def _report_unkillable(self, pod: Pod, reason: str) -> None:
        """Write an Event on the NodeSet if the drain reason says that a job's processes outlive SIGKILL, and where they
        wait. Pod and Node show this reason only while the drain lasts.
        """
        nodeset = nodeset_of(pod)
        if nodeset is None or not reason.startswith(UNKILLABLE):
            return
        note = f"Slurm node {pod.name}: {reason}"
        async with self._requests:
            await self._events.warning(
                nodeset, names.NODESET_KIND, reason="KillTaskFailed", action="ReadSlurm", note=note
            )

    async def _report_unplaced(self, pod: Pod, told: str) -> None:
        """Write an Event if the Node's labels do not say where it stands in the topology. `told`: the value of the
        pod's annotation `sunkpy.dev/topology`.
        """
        if not (why := problem_told(told)):
            return
        note = f"Slurm node {pod.name} stays at {told.partition(' (')[0] or 'its place'} in the topology: {why}"
        async with self._requests:
            await self._events.warning(pod, "Pod", reason="PlaceUnknown", action="ReadNode", note=note)

    async def _report_capped(self, action: SlurmAction, pod: Pod | None) -> None:
        kind = type(action).__name__
        what = "deletion" if isinstance(action, DeleteSlurmNode) else "drain"
        note = (
            f"the {what} of Slurm node {action.name} is postponed: too many nodes lost their pods or their readiness "
            "within a minute"
        )
        self._metrics.capped.labels(kind).inc()
        self._log.error(note)
        if pod is not None:
            async with self._requests:
                await self._events.warning(pod, "Pod", reason="TooManyAtOnce", action=kind, note=note)

    async def _report(self, action: MirrorAction, pod: Pod | None, reason: str, note: str) -> None:
        kind = type(action).__name__
        self._metrics.actions.labels(kind).inc()
        self._log.info(note, action=kind)
        if pod is not None:
            async with self._requests:
                await self._events.normal(pod, "Pod", reason=reason, action=kind, note=note)


def _is_budgeted(action: MirrorAction) -> bool:
    return isinstance(action, DrainNode | DeleteSlurmNode) and not action.is_announced


def _gives_receipt(action: PatchPod) -> bool:
    return action.annotations.get(names.ANNOTATION_DRAINED) is not None


def _receipt_time(action: PatchPod) -> dict[str, str]:
    """Return the annotation that says when Slurm gave the answer behind a receipt, some time before the write; empty
    without a receipt. A receipt is the note on a pod that its node is drained and idle, or that only services run
    there.
    """
    if action.receipt_age_s is None:
        return {}
    return {action.receipt_time: rfc3339(utc_now() - timedelta(seconds=action.receipt_age_s))}

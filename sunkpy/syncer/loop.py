"""The loop: what changed on either side names a node, the node is decided on, the actions are carried out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from sunkpy.core import names
from sunkpy.core.mirror import (
    Budget,
    DeleteSlurmNode,
    DrainNode,
    Memory,
    MirrorAction,
    PatchPod,
    Sight,
    View,
    after_writing,
    decide_mirror,
    find_vanished,
)
from sunkpy.core.mirror.decide import STALE_AFTER_S
from sunkpy.core.model.objects import Pod
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.runtime.queue import QueueMetrics, WorkQueue, run_workers
from sunkpy.slurm import NodeCache
from sunkpy.slurm.errors import NotFound, SlurmError, Unreachable
from sunkpy.syncer.execute import Executor
from sunkpy.syncer.metrics import SyncerMetrics

_CAPPED_AGAIN_S = 10.0
_WORKERS = 8


class MirrorLoop:
    """Keys are Slurm node names, which are the names of slurmd pods."""

    def __init__(
        self,
        *,
        namespace: str,
        pods: Informer[Pod],
        nodes: NodeCache,
        executor: Executor,
        events: EventRecorder,
        metrics: SyncerMetrics,
        queue_metrics: QueueMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._namespace = namespace
        self._pods = pods
        self._nodes = nodes
        self._executor = executor
        self._events = events
        self._metrics = metrics
        self._queue_metrics = queue_metrics
        self._clock = clock
        self._queue: WorkQueue[str] = WorkQueue("mirror")
        self._memories: dict[str, Memory] = {}
        self._awaiting_answer: set[str] = set()
        self._vanished: tuple[str, ...] = ()
        self._budget = Budget()
        self._log = structlog.get_logger("syncer")
        pods.add_handler(self._on_pod)
        nodes.add_listener(self._on_answer)

    async def run(self) -> None:
        """Mirror until cancelled. Starts when both sides are known, or Slurm has kept silent for too long."""
        await self._pods.synced.wait()
        await self._first_answer()
        self._enqueue_all()
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workers(self._queue, self.reconcile, workers=_WORKERS, metrics=self._queue_metrics))
            group.create_task(self._watch_age())

    async def reconcile(self, name: str) -> float | None:
        """One pass over one name."""
        pod = self._pods.get(self._namespace, name)
        decision = decide_mirror(self._view(name, pod), self._clock())
        self._remember(name, decision.memory)
        if decision.wants_next_answer:
            self._awaiting_answer.add(name)
        allowed = [action for action in decision.actions if await self._is_allowed(action, pod)]
        try:
            wrote = [await self._executor.run(action, pod) for action in _pod_first(allowed)]
        except NotFound:
            await self._nodes.refresh(full=True)  # deleted by somebody else: only a full read shows it
            raise
        except Unreachable:
            self._awaiting_answer.add(name)  # as soon as Slurm answers again, not when the back-off is over
            raise
        if any(wrote):
            await self._see_what_was_written(name, allowed)
        return _CAPPED_AGAIN_S if len(allowed) < len(decision.actions) else decision.again_s

    async def _see_what_was_written(self, name: str, actions: list[MirrorAction]) -> None:
        memory = self._memories.get(name, Memory())
        self._memories[name] = after_writing(memory, actions, self._clock())
        self._awaiting_answer.add(name)
        await self._nodes.refresh(full=any(isinstance(action, DeleteSlurmNode) for action in actions))

    def _view(self, name: str, pod: Pod | None) -> View:
        observation = self._nodes.observation
        sight = None
        if observation is not None:
            sight = Sight(
                node=observation.nodes.get(name),
                number=observation.number,
                at_s=observation.at_s,
                is_trusted=not self._vanished,
            )
        return View(
            name=name,
            namespace=self._namespace,
            pod=pod,
            sight=sight,
            are_pods_known=self._pods.connected,
            memory=self._memories.get(name, Memory()),
        )

    def _remember(self, name: str, memory: Memory) -> None:
        observation = self._nodes.observation
        is_known = observation is not None and name in observation.nodes
        if is_known or self._pods.get(self._namespace, name) is not None:
            self._memories[name] = memory
        else:
            self._memories.pop(name, None)

    async def _is_allowed(self, action: MirrorAction, pod: Pod | None) -> bool:
        """Actions that nobody announced come out of a budget: a misread world does little harm."""
        if not isinstance(action, DrainNode | DeleteSlurmNode) or action.is_announced:
            return True
        observation = self._nodes.observation
        total = len(observation.nodes) if observation else 0
        self._budget, is_allowed = self._budget.spend(nodes=total, now_s=self._clock())
        if not is_allowed:
            await self._tell_capped(action, pod)
        return is_allowed

    async def _tell_capped(self, action: DrainNode | DeleteSlurmNode, pod: Pod | None) -> None:
        kind = type(action).__name__
        note = f"{kind} {action.name} put off: too many nodes lost their pods or their readiness within a minute"
        self._metrics.capped.labels(kind).inc()
        self._log.error(note)
        if pod is not None:
            await self._events.warning(pod, "Pod", reason="TooManyAtOnce", action=kind, note=note)

    # ------------------------------------------------------------------------------------------------ what changed

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is not None:
            self._queue.add(pod.name)

    def _on_answer(self, changed: frozenset[str]) -> None:
        self._judge_answer()
        names_due = changed | self._awaiting_answer
        self._awaiting_answer = set()
        for name in names_due:
            self._queue.add(name)

    def _judge_answer(self) -> None:
        observation = self._nodes.observation
        vanished = find_vanished(self._pods.values(), observation.nodes) if observation else ()
        if bool(vanished) == bool(self._vanished):
            self._vanished = vanished
            return
        self._vanished = vanished
        self._metrics.believed.set(0 if vanished else 1)
        self._enqueue_all()
        if vanished:
            self._log.error(
                "Slurm does not list registered nodes any more: nothing will be changed. Did slurmctld lose its state?",
                missing=len(vanished),
                first=vanished[:5],
            )
        else:
            self._log.info("Slurm lists the registered nodes again")

    def _enqueue_all(self) -> None:
        observation = self._nodes.observation
        known = {pod.name for pod in self._pods.values()} | set(observation.nodes if observation else ())
        for name in known:
            self._queue.add(name)

    async def _first_answer(self) -> None:
        """A new leader says nothing about Slurm before it has asked: no pod flaps to Unknown."""
        deadline_s = self._clock() + STALE_AFTER_S
        while self._nodes.observation is None and self._clock() < deadline_s:
            try:
                await self._nodes.refresh()
            except SlurmError:
                await asyncio.sleep(0.5)

    async def _watch_age(self) -> None:
        """An answer that grows old changes what may be said, and no event tells."""
        was_stale = False
        while True:
            await asyncio.sleep(1.0)
            is_stale = self._nodes.age_s > STALE_AFTER_S
            if is_stale and not was_stale:
                self._enqueue_all()
            was_stale = is_stale


def _pod_first(actions: list[MirrorAction]) -> list[MirrorAction]:
    """What is known is told even when Slurm then refuses a write."""
    return sorted(actions, key=lambda action: not isinstance(action, PatchPod))


def pod_selector(cluster: str) -> str:
    """Label selector of the slurmd pods of a Slurm cluster."""
    return f"{names.LABEL_CLUSTER}={cluster},{names.LABEL_ROLE}={names.ROLE_COMPUTE}"

"""The syncer's loop: a change in Kubernetes or Slurm enqueues a node's name, and a pass decides and acts on it. A Slurm
node and its slurmd pod have the same name.

A name is enqueued by a change of its pod, by a change of its node in an answer of Slurm, by the next answer if it waits
for one, by a deadline of its own, and by Slurm's answer about the jobs on its node. All names are enqueued at the
start, and when Slurm's answers are trusted again. When the answers are no longer trusted, or the last one is too old,
the names of pods with a receipt (a note that the node is drained and idle) are enqueued, so that a pass withdraws the
receipt.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from sunkpy.core.mirror import MirrorAction, PatchPod, ServiceQuestion, decide_mirror
from sunkpy.core.mirror.decide import STALE_AFTER_S
from sunkpy.core.model.objects import Pod
from sunkpy.kube.informer import Informer
from sunkpy.runtime.queue import QueueMetrics, WorkQueue, run_workers
from sunkpy.slurm import NodeCache
from sunkpy.slurm.errors import NotFound, SlurmError, Unreachable
from sunkpy.syncer.collect import Collector
from sunkpy.syncer.execute import Executor
from sunkpy.syncer.outage import Outage
from sunkpy.syncer.service_check import ServiceCheck

_CAPPED_AGAIN_S = 10.0
_FIRST_ANSWER_AGAIN_S = 0.5
_AGE_EACH_S = 1.0
_WORKERS = 1024
"""The number of workers. With so many, no name waits for a worker while a rack is drained and its Events are
written.
"""
_DECIDE_AT_ONCE = 8


class MirrorLoop:
    """Keeps each Slurm node and its slurmd pod in line with each other. Both have the same name; a pass is about one
    name.
    """

    def __init__(
        self,
        *,
        pods: Informer[Pod],
        nodes: NodeCache,
        collector: Collector,
        executor: Executor,
        service_check: ServiceCheck,
        outage: Outage,
        queue_metrics: QueueMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pods = pods
        self._nodes = nodes
        self._collector = collector
        self._executor = executor
        self._service_check = service_check
        self._outage = outage
        self._queue_metrics = queue_metrics
        self._clock = clock
        self._queue: WorkQueue[str] = WorkQueue("mirror")
        self._deciding = asyncio.Semaphore(_DECIDE_AT_ONCE)
        self._awaiting_answer: set[str] = set()
        pods.add_handler(self._on_pod)
        nodes.add_listener(self._on_answer)

    async def run(self) -> None:
        """Keep Slurm nodes and slurmd pods in line until cancelled. Begin when both are known, or when Slurm has not
        answered for too long.
        """
        await self._pods.synced.wait()
        await self._first_answer()
        self._enqueue(self._collector.names())
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workers(self._queue, self.reconcile, workers=_WORKERS, metrics=self._queue_metrics))
            group.create_task(self._watch_age())

    async def reconcile(self, name: str) -> float | None:
        """Make one pass over the node and pod of this name: collect, decide, execute. Return the seconds until the next
        pass; None if a change has to come first.
        """
        async with self._deciding:
            await asyncio.sleep(0)  # when all names are enqueued at once, other tasks get a turn between them
            view = self._collector.view(name)
            decision = decide_mirror(view, self._clock())
            self._collector.remember(name, decision.memory)
        if decision.wants_next_answer:
            self._awaiting_answer.add(name)
        nodes = self._collector.slurm_node_count
        allowed = [a for a in decision.actions if await self._executor.spend_budget(a, view.pod, nodes=nodes)]
        if await self._execute(name, allowed, view.pod):
            self._read_back(name, allowed)
        elif decision.question is not None:
            await self._ask(name, decision.question)
            return 0.0
        return _CAPPED_AGAIN_S if len(allowed) < len(decision.actions) else decision.again_s

    async def _execute(self, name: str, actions: Iterable[MirrorAction], pod: Pod | None) -> bool:
        """Carry out the actions on this node and its pod. Return True if Slurm was written to, or has changed since the
        decision.
        """
        try:
            wrote = [await self._executor.run(action, pod) for action in _pod_first(actions)]
        except NotFound:
            self._nodes.hasten(full=True)  # another program has deleted the node: only a full read shows that
            raise
        except Unreachable:
            self._awaiting_answer.add(name)  # the next pass comes as soon as Slurm answers, not after the back-off
            raise
        return any(wrote)

    def _read_back(self, name: str, actions: list[MirrorAction]) -> None:
        """Note what was written to Slurm, and have the nodes read again soon, to see the effect. It is a full read,
        because only that shows a deletion.
        """
        self._collector.remember_writes(name, actions, self._clock())
        self._awaiting_answer.add(name)
        self._nodes.hasten(full=True)

    async def _ask(self, name: str, question: ServiceQuestion) -> None:
        at_s = self._clock()
        is_yes = await self._service_check.ask(question)
        self._collector.remember_jobs(name, question, is_yes=is_yes, at_s=at_s)

    # ------------------------------------------------------------------------------------------------ what changed

    def places_changed(self, slurm_nodes: Iterable[str]) -> None:
        """Enqueue these Slurm nodes, whose place in the topology may have changed."""
        self._enqueue(slurm_nodes)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is not None:
            self._queue.add(pod.name)

    def _on_answer(self, changed: frozenset[str]) -> None:
        if self._collector.judge_answer():
            is_trusted = self._collector.is_trusted
            self._enqueue(self._collector.names() if is_trusted else self._collector.names_with_a_finding())
        due = changed | self._awaiting_answer
        self._awaiting_answer = set()
        self._enqueue(due)

    def _enqueue(self, names: Iterable[str]) -> None:
        for name in names:
            self._queue.add(name)

    async def _first_answer(self) -> None:
        """Wait for the first answer of Slurm, but not too long: without one, a new leader would set conditions of pods
        to Unknown.
        """
        deadline_s = self._clock() + STALE_AFTER_S
        while self._nodes.observation is None and self._clock() < deadline_s:
            try:
                await self._nodes.refresh()
            except SlurmError:
                await asyncio.sleep(_FIRST_ANSWER_AGAIN_S)

    async def _watch_age(self) -> None:
        """Check each second whether Slurm's last answer is too old, and have outages reported. When it becomes too old,
        enqueue the pods' names from which something has to be withdrawn.
        """
        was_stale = False
        while True:
            await asyncio.sleep(_AGE_EACH_S)
            is_stale = self._nodes.age_s > STALE_AFTER_S + self._nodes.turn_s
            if is_stale and not was_stale:
                self._enqueue(self._collector.names_with_a_finding())
            was_stale = is_stale
            await self._outage.look(is_read=not is_stale, is_trusted=self._collector.is_trusted)


def _pod_first(actions: Iterable[MirrorAction]) -> list[MirrorAction]:
    """Return the same actions, but those on pods first, so that they are done even if Slurm then refuses a write."""
    return sorted(actions, key=lambda action: not isinstance(action, PatchPod))

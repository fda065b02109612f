"""The loop of `sunkpy logins`: a change of a person's StatefulSet or pod, or a request, adds the person to the queue; a
pass decides on their pod.
"""

from __future__ import annotations

from sunkpy.core.logins import StatefulSet, decide_login
from sunkpy.core.model.objects import KubeObject, Pod
from sunkpy.kube.informer import Informer
from sunkpy.logins.collect import Collector
from sunkpy.logins.execute import Executor
from sunkpy.runtime.queue import QueueMetrics, WorkQueue, run_workers


class LoginsLoop:
    """Starts, stops and recreates the login pods of people, once all pods and StatefulSets are known. A pass is for one
    person.
    """

    def __init__(
        self,
        *,
        workloads: Informer[StatefulSet],
        pods: Informer[Pod],
        collector: Collector,
        executor: Executor,
        queue_metrics: QueueMetrics,
    ) -> None:
        self._workloads = workloads
        self._pods = pods
        self._collector = collector
        self._executor = executor
        self._queue_metrics = queue_metrics
        self._queue: WorkQueue[str] = WorkQueue("logins")
        workloads.add_handler(self._on_workload)
        pods.add_handler(self._on_pod)

    async def run(self) -> None:
        """Start, stop and recreate personal login pods as needed, until cancelled."""
        await self._workloads.synced.wait()
        await self._pods.synced.wait()
        await run_workers(self._queue, self.reconcile, metrics=self._queue_metrics)

    async def reconcile(self, person: str) -> None:
        """Look at one person's login pod: collect what is known, decide, and carry that out."""
        action = decide_login(self._collector.view(person))
        if action is not None:
            await self._executor.run(action)

    def look(self, person: str) -> None:
        """Add the person to the queue, so that it is soon decided what to do with their login pod."""
        self._queue.add(person)

    def _on_workload(self, old: StatefulSet | None, new: StatefulSet | None) -> None:
        self._on_change(new or old)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        self._on_change(new or old)

    def _on_change(self, changed: KubeObject | None) -> None:
        person = self._collector.person_of(changed) if changed is not None else None
        if person is not None:
            self._queue.add(person)

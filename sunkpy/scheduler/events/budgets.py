"""Events about PodDisruptionBudgets that a preemption has violated: Slurm chooses the pods, and knows no budgets."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import structlog

from sunkpy.core.gang.job.ends import find_violated
from sunkpy.core.model.objects import Budget, Pod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import KubeError
from sunkpy.kube.events import EventRecorder
from sunkpy.scheduler.events.late_writes import LateWrites


class ViolatedBudgets:
    """The budgets of a namespace are read once for all pods that went within `settled_s`: so long Kubernetes may take
    to count them. No eviction waits for it.
    """

    def __init__(self, kube: Kube, events: EventRecorder, *, settled_s: float) -> None:
        self._kube = kube
        self._events = events
        self._settled_s = settled_s
        self._preempted: dict[str, list[Pod]] = {}
        self._late: LateWrites[str] = LateWrites("budgets", workers=1)
        self._log = structlog.get_logger("scheduler")

    async def run(self) -> None:
        """Tell until cancelled."""
        await self._late.run()

    def preempted(self, pods: Iterable[Pod]) -> None:
        """These were evicted for another job."""
        for pod in pods:
            namespace = pod.metadata.namespace
            self._preempted.setdefault(namespace, []).append(pod)
            self._late.put(namespace, partial(self._tell, namespace), after_s=self._settled_s)

    async def _tell(self, namespace: str) -> None:
        pods = self._preempted.pop(namespace, [])
        try:
            budgets = await self._kube.list_objects(paths.disruption_budgets(namespace), Budget)
        except KubeError as error:
            self._log.warning("budgets not read", namespace=namespace, error=str(error))
            return
        for pod in pods:
            if (budget := find_violated(pod, budgets)) is not None:
                note = (
                    f"its PodDisruptionBudget {budget.name} wants {budget.status.desired_healthy} healthy pods and has "
                    f"{budget.status.current_healthy}: Slurm chooses whom it preempts, and knows no budgets. Spread "
                    "the pods by required anti-affinity (kubernetes.io/hostname), or ask for LLN=YES in their partition"
                )
                await self._events.warning(pod, "Pod", reason="BudgetViolated", action="Evicting", note=note)

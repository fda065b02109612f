"""Events for evicted pods, sent after the eviction: why, by which job, once that has been found out, and whether that
violated their PodDisruptionBudgets. Slurm chooses the pods, and knows no budgets. No eviction waits for what is said.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from sunkpy.core.gang.job.ends import find_violated, named
from sunkpy.core.model.objects import Budget, Pod
from sunkpy.core.model.states import SlurmJob
from sunkpy.kube import paths
from sunkpy.runtime.fan_out import fan_out
from sunkpy.scheduler.events.outbox import BUDGETS, CAUSES, PREEMPTORS, Outbox
from sunkpy.scheduler.jobs.end_causes import EndCauses
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.pods.evict import Eviction

_AT_ONCE = 4


class EvictionEvents:
    """Writes the Events of evicted pods, in the order of the evictions. Preempted pods that come within
    `preemptors_each_s` of each other share one search for preemptors, because the text of the Event names the
    preemptor.

    The budgets of a namespace are read once for all its pods that went within `budgets_after_s`.
    """

    def __init__(self, leader: Leader, causes: EndCauses, outbox: Outbox) -> None:
        self._leader = leader
        self._causes = causes
        self._outbox = outbox
        self._waiting: list[Eviction] = []
        self._to_be_named: list[Eviction] = []
        self._searched_at = float("-inf")
        self._preempted: dict[str, list[Pod]] = {}

    def add(self, evictions: Iterable[Eviction]) -> None:
        """Note that these pods were evicted, or their owner suspended."""
        # Who may not see jobs of others in Slurm must not read of them in an Event.
        names_nobody = self._leader.settings.private_jobs
        for eviction in evictions:
            if not eviction.cause.is_preemption or eviction.job is None or names_nobody:
                self._waiting.append(eviction)
                self._outbox.later("", CAUSES, self._explain_all)
            else:
                self._to_be_named.append(eviction)
                next_s = self._searched_at + self._leader.times.preemptors_each_s - self._leader.clock()
                self._outbox.later("", PREEMPTORS, self._name_all, after_s=max(0.0, next_s))
            if eviction.is_evicted and eviction.cause.is_preemption:
                namespace = eviction.pod.metadata.namespace
                self._preempted.setdefault(namespace, []).append(eviction.pod)
                write = partial(self._check_budgets, namespace)
                self._outbox.later(namespace, BUDGETS, write, after_s=self._leader.times.budgets_after_s)

    async def _explain_all(self) -> None:
        together, self._waiting = self._waiting, []
        await fan_out((partial(self._explain, each, None) for each in together), at_once=_AT_ONCE)

    async def _name_all(self) -> None:
        self._searched_at = self._leader.clock()
        # Meanwhile others come that went for the same job.
        states = await self._causes.next_states(lambda: {each.job for each in self._to_be_named if each.job})
        together, self._to_be_named = self._to_be_named, []
        jobs = {each.job: each.node for each in together if each.job is not None}
        preemptors = await self._causes.by_whom(jobs, states) if jobs else {}
        calls = [partial(self._explain, each, preemptors.get(each.job) if each.job else None) for each in together]
        await fan_out(calls, at_once=_AT_ONCE)

    async def _explain(self, eviction: Eviction, preemptor: SlurmJob | None) -> None:
        pod, cause = eviction.pod, named(eviction.cause, preemptor)
        message = f"{cause.message}{eviction.more}"
        action, note = (
            ("Evicting", f"{message}; the pod is evicted") if eviction.is_evicted else ("Suspending", message)
        )
        await self._outbox.warn(pod, reason=cause.reason, action=action, note=note)
        seen = self._outbox.seen(pod)
        if eviction.is_evicted and preemptor is not None and seen is not None:
            await self._leader.pods.explain_disruption(seen, reason=cause.reason, message=message)

    async def _check_budgets(self, namespace: str) -> None:
        budgets = await self._leader.kube.list_objects(paths.disruption_budgets(namespace), Budget)
        for pod in self._preempted.pop(namespace, []):
            if (budget := find_violated(pod, budgets)) is not None:
                note = (
                    f"its PodDisruptionBudget {budget.name} wants {budget.status.desired_healthy} healthy pods and has "
                    f"{budget.status.current_healthy}: Slurm chooses whom it preempts, and knows no budgets. Spread "
                    "the pods by required anti-affinity (kubernetes.io/hostname), or ask for LLN=YES in their partition"
                )
                await self._outbox.warn(pod, reason="BudgetViolated", action="Evicting", note=note)

"""Evicts pods whose job has ended or has lost their node. If the owner of the pods asks for that, a preemption suspends
the owner instead, and the owner then removes its pods itself.

An eviction waits only for its own writes. Events follow: why the pod was evicted, by which job it was preempted as soon
as that has been found out, and whether this violated a PodDisruptionBudget. Slurm chooses which jobs it preempts, and
does not know the budgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import msgspec
import structlog

from sunkpy.core.gang import actions as act
from sunkpy.core.gang.decide.ending import at_most
from sunkpy.core.gang.job.ends import DEVICES_LOST, EndCause, find_violated, named
from sunkpy.core.model.objects import Budget, Pod
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.core.model.times import utc_now
from sunkpy.kube import paths
from sunkpy.runtime.fan_out import fan_out
from sunkpy.scheduler.devices.allocate import Allocator
from sunkpy.scheduler.jobs.end_causes import EndCauses
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.nodes.cluster import Cluster
from sunkpy.scheduler.outbox import BUDGETS, CAUSES, PREEMPTORS, Outbox
from sunkpy.scheduler.owners.suspensions import Suspensions
from sunkpy.scheduler.record import GangRecord

_AT_ONCE = 4


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that has to leave the Slurm node `node`, because its job ended or lost the node.

    Args:
        job: the pod's job; None if it has none.
        cause: why the job ended.
        more: text that the Event adds to the text of the cause.
        is_evicted: True if the scheduler evicted the pod; False if it suspended the pod's owner, which removes the pod.
    """

    pod: Pod
    job: JobId | None
    node: str
    cause: EndCause
    more: str = ""
    is_evicted: bool = True


class EvictionEvents:
    """Writes the Events of evicted pods, in the order of the evictions. The Event of a preempted pod names the
    preemptor (the job that took the node), if it is found and the settings do not say that jobs are private. One search
    finds the preemptors for all pods that were evicted within `preemptors_each_s`.

    The PodDisruptionBudgets of a namespace are read once for all its pods that were evicted within `budgets_after_s`.
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
        """Queue Events for pods that were just evicted, and for pods whose owner was just suspended."""
        # Who may not see jobs of others in Slurm must not read of them in an Event.
        names_nobody = self._leader.settings.private_jobs
        for eviction in evictions:
            if not eviction.cause.is_preemption or eviction.job is None or names_nobody:
                self._waiting.append(eviction)
                self._outbox.later("", CAUSES, self._explain_all)
            else:
                self._to_be_named.append(eviction)
                next_s = self._searched_at + self._leader.settings.times.preemptors_each_s - self._leader.clock()
                self._outbox.later("", PREEMPTORS, self._name_all, after_s=max(0.0, next_s))
            if eviction.is_evicted and eviction.cause.is_preemption:
                namespace = eviction.pod.metadata.namespace
                self._preempted.setdefault(namespace, []).append(eviction.pod)
                write = partial(self._check_budgets, namespace)
                self._outbox.later(namespace, BUDGETS, write, after_s=self._leader.settings.times.budgets_after_s)

    async def _explain_all(self) -> None:
        together, self._waiting = self._waiting, []
        await fan_out((partial(self._explain, each, None) for each in together), at_once=_AT_ONCE)

    async def _name_all(self) -> None:
        self._searched_at = self._leader.clock()
        # Until the answer comes, `_to_be_named` gets more evicted pods, many of them of the same jobs.
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


class Evictor:
    """Evicts pods, or suspends their owner; each leader has its own evictor. A pod is evicted again after `again_s` at
    the soonest.
    """

    def __init__(
        self,
        leader: Leader,
        cluster: Cluster,
        allocator: Allocator,
        causes: EndCauses,
        suspensions: Suspensions,
        outbox: Outbox,
    ) -> None:
        self._leader = leader
        self._again_s = leader.settings.times.again_s
        self._cluster = cluster
        self._allocator = allocator
        self._causes = causes
        self._suspensions = suspensions
        self._events = EvictionEvents(leader, causes, outbox)
        self._log = structlog.get_logger("scheduler")

    async def evict(self, record: GangRecord, evictions: Sequence[act.Evict]) -> None:
        """Evict these pods, with the cause that is known now, or suspend their owner if that is asked for. Pods that
        are already being deleted, or were evicted a moment ago, are left out.
        """
        now = self._leader.clock()
        due = [e for e in evictions if not e.pod.is_deleting and now - record.member(e.pod).evicted_at >= self._again_s]
        if not due:
            return
        node = self._cluster.slurm_node_on(due[0].pod.spec.node_name)
        cause = self._cause(record, due[0])
        if not await self._suspend(record, due, node, cause):
            evicted: list[Eviction] = []
            try:
                await fan_out([partial(self._evict_one, record, action, node, cause, evicted) for action in due])
            finally:
                self._events.add(evicted)

    async def _suspend(self, record: GangRecord, due: Sequence[act.Evict], node: str, cause: EndCause) -> bool:
        """Suspend the owner of these pods after a preemption, if the owner asks for that. Return True if it was
        suspended; the owner then deletes its pods. If pods are still there at the next eviction for the same job, they
        are evicted.
        """
        job, suspension = due[0].job, due[0].suspension
        if suspension is None or not cause.is_preemption or record.suspended_for == job:
            return False
        if not await self._suspensions.suspend(suspension):
            return False
        record.suspended_for, now = job, self._leader.clock()
        more = f"; {suspension.owner.kind} {suspension.owner.name} is suspended, and resumed when its pods are gone"
        for pod in (action.pod for action in due):
            record.member(pod).evicted_at = now
            self._events.add([Eviction(pod=pod, job=job, node=node, cause=cause, more=more, is_evicted=False)])
        return True

    async def _evict_one(
        self, record: GangRecord, action: act.Evict, lost: str, cause: EndCause, evicted: list[Eviction]
    ) -> None:
        """Evict one pod, and add it to `evicted` if it was still there. A pod that was to be evicted because it lost
        its devices is first checked again, and stays if it has them.

        `lost`: a Slurm node that the pod's job has lost, by which the job that took it is searched for.
        """
        cause = action.cause or cause
        if cause.reason == DEVICES_LOST and not await self._allocator.has_lost_devices(action.pod):
            return
        if await self._leader.pods.evict(action.pod, cause, grace_s=action.grace_s):
            evicted.append(Eviction(pod=action.pod, job=action.job, node=lost, cause=cause))
        record.member(action.pod).evicted_at = self._leader.clock()
        self._leader.metrics.evictions.labels(cause.reason).inc()
        self._log.info("evicted", pod="/".join(action.pod.key), job=action.job, cause=cause.message)

    async def shorten(self, record: GangRecord, action: act.Shorten) -> None:
        """Shorten the grace period of a pod that is already being deleted by somebody else, and write an Event about
        that.
        """
        pod, member, now = action.pod, record.member(action.pod), self._leader.clock()
        if now - member.evicted_at >= self._again_s:
            grace_s = at_most(action.grace_s, pod, now=utc_now())
            if await self._leader.pods.delete(pod, grace_s=grace_s):
                given_s = pod.metadata.deletion_grace_period_seconds
                note = f"its job has lost the node: its grace period is {grace_s} s now, not {given_s} s"
                events = self._leader.events
                await events.warning(pod, "Pod", reason="GraceShortened", action="Evicting", note=note)
            member.evicted_at = now

    def _cause(self, record: GangRecord, action: act.Evict) -> EndCause:
        if action.cause is not None:
            return action.cause
        assert action.job is not None, "an eviction has neither a cause nor a Slurm job"
        known = record.jobs.get(action.job)
        return self._causes.of(action.job, known=known.state if known is not None else frozenset())

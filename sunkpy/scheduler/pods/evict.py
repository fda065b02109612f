"""Evicts pods whose job has ended or lost their node; or suspends their owner, which then removes its pods itself.

An eviction waits for nothing but its own writes: the Events about it follow (`scheduler.events.evictions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec
import structlog

from sunkpy.core.gang import actions as act
from sunkpy.core.gang.decide.ending import at_most
from sunkpy.core.gang.job.ends import DEVICES_LOST, EndCause
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId
from sunkpy.core.model.times import utc_now
from sunkpy.runtime.fan_out import fan_out
from sunkpy.scheduler.devices.allocate import Allocator
from sunkpy.scheduler.jobs.end_causes import EndCauses
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.nodes.cluster import Cluster
from sunkpy.scheduler.owners.suspensions import Suspensions
from sunkpy.scheduler.record import GangRecord


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that has to leave `node` because its job ended. `more` is added to the cause. If not `is_evicted`, its
    owner was suspended and removes the pod.
    """

    pod: Pod
    job: JobId | None
    node: str
    cause: EndCause
    more: str = ""
    is_evicted: bool = True


class Evictor:
    """Evicts pods, each at most once in `again_s`; each leader has its own. `on_evicted` is called with the evicted
    pods.
    """

    def __init__(
        self,
        leader: Leader,
        cluster: Cluster,
        allocator: Allocator,
        causes: EndCauses,
        suspensions: Suspensions,
        *,
        on_evicted: Callable[[Iterable[Eviction]], None],
    ) -> None:
        self._leader = leader
        self._again_s = leader.times.again_s
        self._cluster = cluster
        self._allocator = allocator
        self._causes = causes
        self._suspensions = suspensions
        self._on_evicted = on_evicted
        self._log = structlog.get_logger("scheduler")

    async def evict(self, record: GangRecord, evictions: Sequence[act.Evict]) -> None:
        """Evict all with what is known of the end of their job; the Events follow when more is known."""
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
                self._on_evicted(evicted)

    async def _suspend(self, record: GangRecord, due: Sequence[act.Evict], node: str, cause: EndCause) -> bool:
        """The owner takes its pods back by itself, if it asks for that; those that are still there when it is time to
        evict again are evicted.
        """
        job, suspension = due[0].job, due[0].suspension
        if suspension is None or not cause.is_preemption or record.suspended_for == job:
            return False
        if not await self._suspensions.suspend(suspension):
            return False
        record.suspended_for, now = job, self._leader.clock()
        more = f"; {suspension.owner.kind} {suspension.owner.name} is suspended until its pods are gone"
        for pod in (action.pod for action in due):
            record.member(pod).evicted_at = now
            self._on_evicted([Eviction(pod=pod, job=job, node=node, cause=cause, more=more, is_evicted=False)])
        return True

    async def _evict_one(
        self, record: GangRecord, action: act.Evict, lost: str, cause: EndCause, evicted: list[Eviction]
    ) -> None:
        """`lost`: a node that the job lost, by which its preemptor is found."""
        cause = action.cause or cause
        if cause.reason == DEVICES_LOST and not await self._allocator.has_lost_devices(action.pod):
            return
        if await self._leader.pods.evict(action.pod, cause, grace_s=action.grace_s):
            evicted.append(Eviction(pod=action.pod, job=action.job, node=lost, cause=cause))
        record.member(action.pod).evicted_at = self._leader.clock()
        self._leader.metrics.evictions.labels(cause.reason).inc()
        self._log.info("evicted", pod="/".join(action.pod.key), job=action.job, cause=cause.message)

    async def shorten(self, record: GangRecord, action: act.Shorten) -> None:
        """Give a pod that is ending less time."""
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

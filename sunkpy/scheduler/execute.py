"""Carries out what was decided about a gang: one `match`, each write guarded and repeatable."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from sunkpy.core.gang import actions as act
from sunkpy.core.gang.ends import EndCause, displaced
from sunkpy.kube.errors import NotFound
from sunkpy.scheduler.bind import Binder, Refused
from sunkpy.scheduler.cluster import Cluster
from sunkpy.scheduler.end_causes import EndCauses
from sunkpy.scheduler.entries import GangEntry
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.pod_writer import PodWriter
from sunkpy.scheduler.submit import JobWriter, NotSubmitted

EVICT_AGAIN_S = 5.0


class Executor:
    """Effects on placeholder jobs and on the pods of a gang."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        pods: PodWriter,
        jobs: JobWriter,
        binder: Binder,
        causes: EndCauses,
        metrics: SchedulerMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._pods = pods
        self._jobs = jobs
        self._binder = binder
        self._causes = causes
        self._metrics = metrics
        self._clock = clock
        self._log = structlog.get_logger("scheduler")

    async def run(self, entry: GangEntry, action: act.GangAction) -> None:
        """Carry out one action.

        Raises:
            KubeError, SlurmError: not done; decide again later.
        """
        match action:
            case act.Submit():
                await self._submit(entry, action)
            case act.UpdateExcluded():
                await self._jobs.exclude(entry, action)
            case act.Bind():
                await self._bind(entry, action)
            case act.Cover(pod=pod, job=job):
                entry.now_under(job)
                await self._pods.note_job(pod, job)
            case act.Finish():
                await self._jobs.finish(entry, action)
            case act.Cancel(job=job, why=why):
                await self._jobs.cancel(entry, job, why=why)
            case act.Evict():
                await self._evict(entry, action)
            case act.Report():
                await self._report(entry, action)
            case act.Warn(pod=pod, reason=reason, note=note):
                await self._pods.warn(pod, reason=reason, action="Scheduling", note=note)

    async def _submit(self, entry: GangEntry, action: act.Submit) -> None:
        try:
            job = await self._jobs.submit(entry, action.request)
        except NotSubmitted as error:
            for pod in action.pods:
                if pod.spec.node_name:
                    await self._pods.warn(pod, reason="SlurmJobLost", action="Scheduling", note=str(error))
                else:
                    await self._report(entry, act.Report(pod=pod, message=str(error), is_problem=True))
            return
        for pod in action.pods:
            if job is not None and not pod.spec.node_name:
                await self._pods.note_job(pod, job)

    async def _bind(self, entry: GangEntry, action: act.Bind) -> None:
        try:
            await self._binder.bind(entry, action)
        except Refused as refused:
            await self._give_back(entry, action, str(refused))

    async def _give_back(self, entry: GangEntry, action: act.Bind, why: str) -> None:
        """The kubelet would not have the pod: give the node back and look for another."""
        now = self._clock()
        entry.refuse_node(action.slurm_node, why, now=now)
        delay_s = entry.back_off(why, now=now)
        note = f"{why}; Slurm job {action.job} is cancelled, another is submitted in {delay_s:.0f} s"
        await self._pods.warn(action.pod, reason="FailedScheduling", action="Binding", note=note)
        await self._jobs.cancel(entry, action.job, why=why)

    async def _evict(self, entry: GangEntry, action: act.Evict) -> None:
        now, member = self._clock(), entry.member(action.pod)
        if action.pod.is_deleting or now - member.evicted_at < EVICT_AGAIN_S:
            return
        node = self._cluster.slurm_node_on(action.pod.spec.node_name)
        cause = await self._cause(action, node)
        await self._pods.evict(action.pod, cause)
        member.evicted_at = now
        self._metrics.evictions.labels(cause.reason).inc()
        self._log.info("evicted", pod="/".join(action.pod.key), job=action.job, cause=cause.message)

    async def _cause(self, action: act.Evict, node: str) -> EndCause:
        if action.displaced_by is not None or action.job is None:
            return displaced(action.job, node=node, by=action.displaced_by)
        return await self._causes.of(action.job, node=node)

    async def _report(self, entry: GangEntry, action: act.Report) -> None:
        member = entry.member(action.pod)
        if member.reported == action.message:
            return
        member.reported = action.message
        try:
            await self._pods.not_scheduled(action.pod, action.message)
        except NotFound:
            return
        say = self._pods.warn if action.is_problem else self._pods.tell
        reason = "FailedScheduling" if action.is_problem else "WaitingForSlurm"
        await say(action.pod, reason=reason, action="Scheduling", note=action.message)

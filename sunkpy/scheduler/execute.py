"""Carries out what was decided about a gang: one `match`, each write guarded and repeatable."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec
import structlog

from sunkpy.core.gang import actions as act
from sunkpy.core.gang.ends import EndCause, displaced
from sunkpy.core.gang.grace import at_most
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.times import utc_now
from sunkpy.scheduler.bind import Binder, Refused
from sunkpy.scheduler.cluster import Cluster
from sunkpy.scheduler.entries import GangEntry
from sunkpy.scheduler.fan_out import fan_out
from sunkpy.scheduler.farewells import Farewell
from sunkpy.scheduler.members import MemberIndex
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.notices import Notices
from sunkpy.scheduler.submit import JobWriter, NotSubmitted
from sunkpy.scheduler.suspensions import Suspensions

EVICT_AGAIN_S = 5.0


class Executor:
    """Effects on placeholder jobs and on the pods of a gang."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        members: MemberIndex,
        jobs: JobWriter,
        binder: Binder,
        suspensions: Suspensions,
        notices: Notices,
        metrics: SchedulerMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._members = members
        self._pods = notices.pods
        self._jobs = jobs
        self._binder = binder
        self._suspensions = suspensions
        self._causes, self._farewells, self._reports = notices.causes, notices.farewells, notices.reports
        self._job_notes = notices.job_notes
        self._metrics = metrics
        self._clock = clock
        self._log = structlog.get_logger("scheduler")

    async def run_all(self, entry: GangEntry, actions: Iterable[act.GangAction]) -> None:
        """Carry out what was decided, in its order; actions of one kind that follow each other at the same time.

        Raises:
            KubeError, SlurmError: not done; decide again later.
        """
        entry.has_news = False
        for kind, group in itertools.groupby(actions, key=type):
            if kind is act.Evict:
                await self._evict_all(entry, [action for action in group if isinstance(action, act.Evict)])
            else:
                await fan_out([partial(self._run, entry, action) for action in group])

    async def _run(self, entry: GangEntry, action: act.GangAction) -> None:
        match action:
            case act.Submit():
                await self._submit(entry, action)
            case act.UpdateExcluded():
                await self._jobs.exclude(entry, action)
            case act.UpdateTerms():
                await self._change(entry, action)
            case act.Bind():
                await self._bind(entry, action)
            case act.BindDirectly():
                await self._bind_directly(entry, action)
            case act.Cover(pod=pod, job=job):
                entry.now_under(job)
                await self._pods.note_job(pod, job)
            case act.NoteDevices(pod=pod, gpus=gpus):
                await self._pods.note_devices(pod, gpus)
            case act.SetApart(pod=pod):
                self._members.set_apart(pod)
            case act.Finish():
                await self._jobs.finish(entry, action)
            case act.Cancel(job=job, why=why):
                await self._jobs.cancel(entry, job, why=why)
            case act.Evict():
                await self._evict_all(entry, [action])
            case act.Shorten():
                await self._shorten(entry, action)
            case act.Report():
                self._reports.add(entry, action)
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
                    cause = act.WaitCause.NOT_SUBMITTED
                    self._reports.add(entry, act.Report(pod=pod, message=str(error), is_problem=True, cause=cause))
            return
        if job is not None:
            self._job_notes.add((pod for pod in action.pods if not pod.spec.node_name), entry.jobs[job].asked)

    async def _change(self, entry: GangEntry, action: act.UpdateTerms) -> None:
        job, pod, change = f"Slurm job {action.job}", action.pod, action.change
        kept = f"{job} was submitted otherwise and stays so in {change.refusal}" if change.refusal else ""
        known, refusal = entry.jobs[action.job], await self._jobs.change(entry, action)
        if refusal is None:
            return  # it is not there any more
        if refusal:
            kept = f"{job} stays as it is: {refusal}"
        elif str(change):
            await self._pods.tell(pod, reason="JobChanged", action="Scheduling", note=f"{job}: {change}")
        if not refusal:
            self._job_notes.add([pod], known.asked, after_s=0.0)
        if kept:
            await self._pods.warn(pod, reason="JobNotChanged", action="Scheduling", note=kept)

    async def _bind(self, entry: GangEntry, action: act.Bind) -> None:
        try:
            await self._binder.bind(entry, action)
        except Refused as refused:
            if action.gives_back:
                await self._give_back(entry, action, refused)
            else:
                self._stays_out(entry, refused)
            return
        bound = entry.member(action.bindings[0].pod).assumed is not None
        if bound and action.final_because:
            note = f"if Slurm takes the nodes back the pods are not made again: {action.final_because}"
            leader = action.bindings[0].pod
            await self._pods.tell(leader, reason="PreemptionIsFinal", action="Binding", note=note)

    async def _bind_directly(self, entry: GangEntry, action: act.BindDirectly) -> None:
        try:
            await self._binder.bind_directly(entry, action)
        except Refused as refused:
            self._stays_out(entry, refused)

    def _stays_out(self, entry: GangEntry, refused: Refused) -> None:
        """The kubelet would not have a pod that others do not depend on: it is told, and asked again."""
        entry.member(refused.pod).is_refused = True
        cause = act.WaitCause.KUBELET
        self._reports.add(entry, act.Report(pod=refused.pod, message=str(refused), is_problem=True, cause=cause))

    async def _give_back(self, entry: GangEntry, action: act.Bind, refused: Refused) -> None:
        """A kubelet would not have one of the pods: give the nodes back and look for others."""
        now, why = self._clock(), str(refused)
        node = next(binding.slurm_node for binding in action.bindings if binding.pod.uid == refused.pod.uid)
        entry.refuse_node(node, why, now=now)
        delay_s = entry.back_off(why, now=now)
        then = f"Slurm job {action.job} is cancelled, another is submitted in {delay_s:.0f} s"

        async def say(pod: Pod) -> None:
            cause = why if pod.uid == refused.pod.uid else f"pod {refused.pod.name} of its gang has no room: {why}"
            await self._pods.warn(pod, reason="FailedScheduling", action="Binding", note=f"{cause}; {then}")

        await fan_out([partial(say, binding.pod) for binding in action.bindings])
        await self._jobs.cancel(entry, action.job, why=why)

    async def _evict_all(self, entry: GangEntry, evictions: Sequence[act.Evict]) -> None:
        """All are told to go with what is known of the end of their job; the rest is told later."""
        now = self._clock()
        due = [e for e in evictions if not e.pod.is_deleting and now - entry.member(e.pod).evicted_at >= EVICT_AGAIN_S]
        if not due:
            return
        node = self._cluster.slurm_node_on(due[0].pod.spec.node_name)
        cause = await self._cause(entry, due[0], node)
        if not await self._suspend(entry, due, node, cause):
            told: list[Farewell] = []
            try:
                await fan_out([partial(self._evict, entry, action, node, cause, told) for action in due])
            finally:
                self._farewells.add(told)

    async def _suspend(self, entry: GangEntry, due: Sequence[act.Evict], node: str, cause: EndCause) -> bool:
        """The owner takes its pods back by itself, if it asks for that; those that are still there when it is time to
        evict again are evicted.
        """
        job, suspension = due[0].job, due[0].suspension
        if suspension is None or not cause.is_preemption or entry.suspended_for == job:
            return False
        if not await self._suspensions.suspend(suspension):
            return False
        entry.suspended_for, now = job, self._clock()
        more = f"; {suspension.owner.kind} {suspension.owner.name} is suspended until its pods are gone"
        for pod in (action.pod for action in due):
            entry.member(pod).evicted_at = now
            self._farewells.add([Farewell(pod=pod, job=job, node=node, cause=cause, more=more, is_evicted=False)])
        return True

    async def _evict(
        self, entry: GangEntry, action: act.Evict, lost: str, cause: EndCause, told: list[Farewell]
    ) -> None:
        """`lost`: a node that the job lost, by which its preemptor is found."""
        node = self._cluster.slurm_node_on(action.pod.spec.node_name)
        goes_along = action.given_away not in ("", node)
        more = f"; the pod on {node} goes with its gang" if goes_along else ""
        why = msgspec.structs.replace(cause, message=f"{cause.message}{more}")
        if await self._pods.evict(action.pod, why, grace_s=action.grace_s):
            told.append(Farewell(pod=action.pod, job=action.job, node=lost, cause=cause, more=more))
        entry.member(action.pod).evicted_at = self._clock()
        self._metrics.evictions.labels(cause.reason).inc()
        self._log.info("evicted", pod="/".join(action.pod.key), job=action.job, cause=why.message)

    async def _shorten(self, entry: GangEntry, action: act.Shorten) -> None:
        pod, member, now = action.pod, entry.member(action.pod), self._clock()
        if now - member.shortened_at >= EVICT_AGAIN_S:
            await self._pods.shorten(pod, at_most(action.grace_s, pod, now=utc_now()))
            member.shortened_at = now

    async def _cause(self, entry: GangEntry, action: act.Evict, node: str) -> EndCause:
        if action.displaced_by is not None or action.job is None:
            return displaced(action.job, node=action.given_away or node, by=action.displaced_by)
        known = entry.jobs.get(action.job)
        return await self._causes.of(action.job, known=known.state if known is not None else frozenset())

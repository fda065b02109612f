"""One pass over one gang: see what is, decide, do it.

The queue's key is the gang's uid. Hooks, watches and polls only note facts and enqueue; everything that has an effect
happens here, one pass at a time per gang.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict

import msgspec
import structlog

from sunkpy.core.gang import actions as act
from sunkpy.core.gang.decide import Policy, decide_gang
from sunkpy.core.gang.lifecycle import IllegalMove, State, advance
from sunkpy.core.gang.recognise import Gang, recognise
from sunkpy.core.gang.view import GangView, is_over
from sunkpy.core.model.states import JobId
from sunkpy.core.placement.admission import Verdict, would_kubelet_admit
from sunkpy.kube import errors as kube_errors
from sunkpy.runtime.queue import WorkQueue
from sunkpy.scheduler.cluster import Cluster
from sunkpy.scheduler.jobs import EndCauses, JobSearch, submission
from sunkpy.scheduler.ledger import Assumption, GangEntry, Ledger, assume
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.pod_writer import PodWriter
from sunkpy.slurm import Slurm
from sunkpy.slurm import errors as slurm_errors

_TELL_AGAIN_S = 3.0
_HAND_OVER_AGAIN_S = 5.0
_ADMISSION_PATIENCE_S = 30.0
_ADMISSION_AGAIN_S = 0.3
_REJECTED_FIRST_S = 15.0
_LATE_SUBMIT_S = 2.0


class Reconciler:
    """Works on gangs. All its parts belong to one leader."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        slurm: Slurm,
        pods: PodWriter,
        ledger: Ledger,
        queue: WorkQueue[str],
        search: JobSearch,
        policy: Policy,
        metrics: SchedulerMetrics,
    ) -> None:
        self._cluster = cluster
        self._slurm = slurm
        self._pods = pods
        self._ledger = ledger
        self._queue = queue
        self._search = search
        self._causes = EndCauses(slurm)
        self._policy = policy
        self._metrics = metrics
        self._binding: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._log = structlog.get_logger("scheduler")

    async def reconcile(self, uid: str) -> float | None:
        """One pass; when to look again, in seconds."""
        entry = self._ledger.get(uid)
        if entry is None:
            return None
        await self._settle_binding(entry)
        view = self.view(entry)
        if view.gang is None and view.live_jobs and not await self._is_gone(entry):
            return _HAND_OVER_AGAIN_S
        self._observe(entry, view)
        for action in decide_gang(view, self._policy):
            await self._do(entry, action)
        self._note_ends(entry)
        entry.fire()
        if self.view(entry).state is State.DONE:
            self._forget(entry)
            return None
        return self._again_s(entry)

    def view(self, entry: GangEntry) -> GangView:
        """The gang as it is known now."""
        gang = self._gang(entry)
        eligibility = self._cluster.eligibility(gang.members[0]) if gang is not None else None
        bound = [pod for pod in gang.members if pod.spec.node_name] if gang is not None else []
        placed = {pod.uid: self._cluster.slurm_node_on(pod.spec.node_name) for pod in bound}
        return entry.view(gang, eligibility, placed=placed, now=time.monotonic())

    def _gang(self, entry: GangEntry) -> Gang | None:
        pod = self._cluster.pods.get(*entry.key)
        if pod is None or pod.uid != entry.uid:
            return None
        if entry.assumed is not None:
            pod = assume(pod, entry.assumed)
        return recognise(pod)

    def _observe(self, entry: GangEntry, view: GangView) -> None:
        try:
            state = advance(entry.state, view.state) if entry.state is not None else view.state
        except IllegalMove as error:
            # What is there counts, not what was expected; a person should know all the same.
            self._metrics.illegal_moves.inc()
            self._log.error("unexpected move", gang=entry.key, error=str(error))
            state = view.state
        if state is entry.state:
            return
        if entry.state is not None:
            self._metrics.gangs.labels(entry.state.value).dec()
        self._metrics.gangs.labels(state.value).inc()
        self._log.info("gang", gang="/".join(entry.key), state=state.value, jobs=sorted(entry.jobs))
        entry.state = state

    async def _is_gone(self, entry: GangEntry) -> bool:
        """The pod is not in our watch: ask the apiserver itself before its job is taken away.

        A watch with another selector, or one that has missed something, must not cost anybody a node.
        """
        if not entry.gone_confirmed:
            found = await self._pods.read(entry.key, entry.uid)
            entry.gone_confirmed = found is None or is_over(found)
            if not entry.gone_confirmed:
                self._log.warning("pod is not watched but there: its job stays", gang="/".join(entry.key))
        return entry.gone_confirmed

    def _forget(self, entry: GangEntry) -> None:
        """Nothing is left of it; a finished pod that is still listed is not picked up again."""
        if entry.state is not None:
            self._metrics.gangs.labels(entry.state.value).dec()
        self._ledger.forget(entry)

    def _again_s(self, entry: GangEntry) -> float | None:
        now = time.monotonic()
        if entry.waits_since is not None:
            return _ADMISSION_AGAIN_S
        if entry.retry_at > now:
            return entry.retry_at - now + 0.01
        if entry.state in (State.ENDING, State.HANDING_OVER):
            return _TELL_AGAIN_S if entry.state is State.ENDING else _HAND_OVER_AGAIN_S
        return None

    def _note_ends(self, entry: GangEntry) -> None:
        """Forget jobs that are through. One that ended before its pods were bound: wait before the next, longer each
        time.
        """
        now = time.monotonic()
        view = self.view(entry)
        for job in view.jobs:
            if view.is_bound and job.id == view.bound_to:
                continue
            known = entry.jobs[job.id]
            if not view.is_bound and not job.is_live and not known.noted:
                known.noted = True
                if not known.cancelled:
                    entry.back_off(f"Slurm job {job.id} ended before its pod was bound", now=now)
            if job.is_settled:
                self._ledger.drop_job(entry, job.id)

    async def _do(self, entry: GangEntry, action: act.GangAction) -> None:
        match action:
            case act.Submit():
                await self._submit(entry, action)
            case act.UpdateExcluded():
                await self._update(entry, action)
            case act.Bind():
                await self._bind(entry, action)
            case act.Cover():
                entry.bound_to = action.job
                await self._pods.note_job(action.pod, action.job)
            case act.Finish():
                await self._finish(entry, action)
            case act.Cancel():
                await self._cancel(entry, action.job, why=action.why)
            case act.Evict():
                await self._evict(entry, action)
            case act.Report():
                await self._report(entry, action)
            case act.Warn():
                await self._pods.warn(action.pod, reason=action.reason, action="Scheduling", note=action.note)

    # ------------------------------------------------------------------- jobs

    async def _submit(self, entry: GangEntry, action: act.Submit) -> None:
        if entry.uncertain_since is not None and await self._find_lost_answer(entry):
            return
        try:
            submitted = await self._slurm.submit_job(submission(action.request))
        except (slurm_errors.Unreachable, slurm_errors.Malformed) as error:
            entry.uncertain_since = time.monotonic()
            await self._submit_failed(entry, error, first_s=_LATE_SUBMIT_S)
            return
        except slurm_errors.SlurmError as error:
            await self._submit_failed(entry, error, first_s=_REJECTED_FIRST_S)
            return
        self._metrics.submits.labels("ok").inc()
        entry.refused = ""
        self._ledger.add_job(entry, submitted.job_id, now=time.monotonic(), excluded=action.request.excluded_nodes)
        self._log.info("submitted", gang="/".join(entry.key), job=submitted.job_id, warnings=submitted.warnings)
        for pod in self.view(entry).pods:
            if not pod.spec.node_name:
                await self._pods.note_job(pod, submitted.job_id)

    async def _find_lost_answer(self, entry: GangEntry) -> bool:
        """After a submit without an answer: was there a job after all? A late one is found by its prolog."""
        assert entry.uncertain_since is not None
        found = await self._search.find(entry.uid, sent_after=entry.uncertain_since + _LATE_SUBMIT_S / 2)
        entry.uncertain_since = None
        for job in found:
            if not job.is_ended:
                self._ledger.add_job(entry, job.id, now=time.monotonic(), excluded=job.excluded_nodes)
        self._queue.add(entry.uid)
        return any(not job.is_ended for job in found)

    async def _submit_failed(self, entry: GangEntry, error: slurm_errors.SlurmError, *, first_s: float) -> None:
        self._metrics.submits.labels("failed").inc()
        delay_s = entry.back_off(error.message, now=time.monotonic(), first_s=first_s)
        self._log.warning("not submitted", gang="/".join(entry.key), error=error.message, retry_in_s=round(delay_s, 1))
        for pod in self.view(entry).pods:
            if pod.spec.node_name:
                await self._pods.warn(pod, reason="SlurmJobLost", action="Scheduling", note=error.message)
            else:
                await self._report(entry, act.Report(pod=pod, message=error.message, is_problem=True))

    async def _update(self, entry: GangEntry, action: act.UpdateExcluded) -> None:
        try:
            await self._slurm.exclude_nodes(action.job, action.excluded)
        except (slurm_errors.AlreadyDone, slurm_errors.NotFound, slurm_errors.Rejected) as error:
            self._log.warning("job not updated", job=action.job, error=error.message)
        entry.jobs[action.job].excluded = action.excluded

    async def _finish(self, entry: GangEntry, action: act.Finish) -> None:
        job, now = entry.jobs[action.job], time.monotonic()
        if job.told_at is not None and now - job.last_told_at < _TELL_AGAIN_S:
            return
        job.told_at, job.last_told_at = job.told_at or now, now
        try:
            await self._slurm.signal_job(action.job, "USR2" if action.exit_code else "USR1")
        except (slurm_errors.AlreadyDone, slurm_errors.NotFound, slurm_errors.Busy, slurm_errors.Rejected) as error:
            self._log.info("placeholder not told", job=action.job, error=error.message)

    async def _cancel(self, entry: GangEntry, job: JobId, *, why: str) -> None:
        if entry.jobs[job].cancelled:
            return
        self._log.info("cancelling", gang="/".join(entry.key), job=job, why=why)
        # The poll tells of a job that has ended already.
        with contextlib.suppress(slurm_errors.AlreadyDone, slurm_errors.NotFound):
            await self._slurm.cancel_job(job)
        entry.jobs[job].cancelled = True
        self._metrics.cancels.inc()

    # ------------------------------------------------------------------- pods

    async def _bind(self, entry: GangEntry, action: act.Bind) -> None:
        node = self._cluster.node_behind(action.slurm_node)
        if node is None:
            await self._refuse(entry, action, f"Slurm node {action.slurm_node} has no Kubernetes node behind it")
            return
        async with self._binding[node.name]:
            others = await self._pods.others_on(node.name)
            self._cluster.occupancy.note(node.name, others)
            admission = would_kubelet_admit(action.pod, node, others)
            if admission.verdict is Verdict.ADMIT:
                entry.waits_since = None
                await self._send_binding(entry, action, node.name)
                return
        now = time.monotonic()
        entry.waits_since = entry.waits_since or now
        if admission.verdict is Verdict.REFUSE or now - entry.waits_since > _ADMISSION_PATIENCE_S:
            await self._refuse(entry, action, admission.why)

    async def _send_binding(self, entry: GangEntry, action: act.Bind, node: str) -> None:
        job = entry.jobs[action.job]
        if not job.view(time.monotonic()).is_live:
            return  # an epilog or a poll was faster
        entry.assumed = Assumption(job=action.job, node=node, slurm_node=action.slurm_node)
        entry.bound_to = action.job
        try:
            await self._pods.bind(action.pod, entry.assumed)
        except kube_errors.Unavailable:
            raise  # sent, perhaps done: settled at the start of the next pass
        except kube_errors.KubeError:
            entry.assumed = entry.bound_to = None
            self._metrics.binds.labels("failed").inc()
            raise
        entry.assumed = msgspec.structs.replace(entry.assumed, confirmed=True)
        entry.fire()
        now = time.monotonic()
        self._metrics.binds.labels("ok").inc()
        self._metrics.bind_seconds.observe(now - entry.seen_at)
        if job.prologs:
            self._metrics.start_to_bind_seconds.observe(now - min(job.prologs.values()))
        note = f"Slurm job {action.job} runs on {action.slurm_node}: bound to node {node}"
        await self._pods.tell(action.pod, reason="Scheduled", action="Binding", note=note)

    async def _settle_binding(self, entry: GangEntry) -> None:
        """A binding without an answer: ask what became of it. Drop an assumption that the watch has confirmed."""
        assumed = entry.assumed
        if assumed is None:
            return
        pod = self._cluster.pods.get(*entry.key)
        if pod is None or pod.uid != entry.uid or pod.spec.node_name:
            entry.assumed = None
        elif not assumed.confirmed:
            found = await self._pods.read(entry.key, entry.uid)
            bound = found is not None and bool(found.spec.node_name)
            entry.assumed = msgspec.structs.replace(assumed, confirmed=True) if bound else None
            entry.bound_to = assumed.job if bound else None

    async def _refuse(self, entry: GangEntry, action: act.Bind, why: str) -> None:
        """The kubelet would not have the pod: give the node back and look for another."""
        now = time.monotonic()
        entry.waits_since = None
        entry.refuse_node(action.slurm_node, why, now=now)
        delay_s = entry.back_off(why, now=now)
        note = f"{why}; Slurm job {action.job} is cancelled, another is submitted in {delay_s:.0f} s"
        await self._pods.warn(action.pod, reason="FailedScheduling", action="Binding", note=note)
        await self._cancel(entry, action.job, why=why)

    async def _evict(self, entry: GangEntry, action: act.Evict) -> None:
        now = time.monotonic()
        if action.pod.is_deleting or now - entry.evicted_at.get(action.pod.uid, float("-inf")) < _HAND_OVER_AGAIN_S:
            return
        node = self._cluster.slurm_node_on(action.pod.spec.node_name)
        cause = await self._causes.of(action.job, node=node)
        await self._pods.evict(action.pod, cause)
        entry.evicted_at[action.pod.uid] = now
        self._metrics.evictions.labels(cause.reason).inc()
        self._log.info("evicted", pod="/".join(action.pod.key), job=action.job, cause=cause.message)

    async def _report(self, entry: GangEntry, action: act.Report) -> None:
        if entry.reported == action.message:
            return
        entry.reported = action.message
        try:
            await self._pods.not_scheduled(action.pod, action.message)
        except kube_errors.NotFound:
            return
        say = self._pods.warn if action.is_problem else self._pods.tell
        reason = "FailedScheduling" if action.is_problem else "WaitingForSlurm"
        await say(action.pod, reason=reason, action="Scheduling", note=action.message)

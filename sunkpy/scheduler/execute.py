"""Carries out the actions that were decided for a gang. One `match` statement calls the right part of the scheduler for
each kind of action. An action that failed may be carried out again.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

import structlog

from sunkpy.core.gang import actions as act
from sunkpy.core.gang.identity import BindingNote
from sunkpy.core.gang.phases import is_over
from sunkpy.runtime.fan_out import fan_out
from sunkpy.scheduler.devices.allocate import Allocator
from sunkpy.scheduler.devices.made import Refused
from sunkpy.scheduler.jobs.writer import JobWriter, NotSubmitted
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.outbox import Outbox
from sunkpy.scheduler.pods.bind import Binder
from sunkpy.scheduler.pods.evict import Evictor
from sunkpy.scheduler.pods.index import PodsByGang
from sunkpy.scheduler.record import GangRecord


class Executor:
    """Carries out the actions that were decided for a gang, on its pods and on its placeholder jobs in Slurm."""

    def __init__(
        self,
        leader: Leader,
        members: PodsByGang,
        jobs: JobWriter,
        binder: Binder,
        allocator: Allocator,
        evictor: Evictor,
        outbox: Outbox,
    ) -> None:
        self._leader = leader
        self._members = members
        self._jobs = jobs
        self._binder = binder
        self._allocator = allocator
        self._evictor = evictor
        self._outbox = outbox
        self._log = structlog.get_logger("scheduler")

    async def run_all(self, record: GangRecord, actions: Sequence[act.GangAction], *, is_gone: bool) -> None:
        """Carry out the actions in their order. Actions of the same kind that follow each other are carried out at the
        same time.

        `is_gone`: the watch shows no pod of the gang. The apiserver is then asked as well, and no action is carried out
        if it still has a pod of the gang that is not over.

        Raises:
            KubeError, SlurmError: an action failed; decide about the gang again later.
        """
        if actions and is_gone and not await self._are_gone(record):
            return
        for kind, group in itertools.groupby(actions, key=type):
            if kind is act.Evict:
                await self._evictor.evict(record, [action for action in group if isinstance(action, act.Evict)])
            else:
                await fan_out([partial(self._run, record, action) for action in group])
        record.warned = {_said(action) for action in actions if isinstance(action, act.Warn)}

    async def _run(self, record: GangRecord, action: act.GangAction) -> None:
        match action:
            case act.Submit():
                await self._submit(record, action)
            case act.UpdateExcluded():
                await self._jobs.exclude(record, action)
            case act.UpdateTerms():
                await self._change(record, action)
            case act.Bind():
                await self._bind(record, action)
            case act.BindDirectly():
                await self._bind_directly(record, action)
            case act.NoteJob(pod=pod, job=job):
                record.now_under(job)
                await self._leader.pods.note(pod, BindingNote(job=job, gang=record.id).annotations)
            case act.NoteDevices(pod=pod, gpus=gpus):
                await self._leader.pods.note_devices(pod, gpus)
            case act.FreeDevices(pod=pod):
                await self._allocator.release(pod)
            case act.MakeSolo(pod=pod):
                self._members.make_solo(pod)
            case act.Finish():
                await self._jobs.finish(record, action)
            case act.Cancel(job=job, why=why):
                await self._jobs.cancel(record, job, why=why)
            case act.Shorten():
                await self._evictor.shorten(record, action)
            case act.Report():
                self._outbox.report(record, action)
            case act.Warn(pod=pod, reason=reason, note=note):
                if _said(action) not in record.warned:
                    await self._outbox.warn(pod, reason=reason, action="Scheduling", note=note)

    async def _are_gone(self, record: GangRecord) -> bool:
        """True if all pods of the gang are gone or over, as the apiserver says when it is asked. The watch does not
        suffice for that: it may select other pods, or may have missed a change, and no pod must lose its node by such a
        mistake.
        """
        left = await self._leader.pods.left_of(record)
        there = next((pod.name for pod in left if not is_over(pod)), None)
        if there is not None:
            self._log.warning(
                "the watch does not show a pod that the apiserver has: its job is kept",
                gang=str(record.id),
                pod=there,
            )
        return there is None

    async def _submit(self, record: GangRecord, action: act.Submit) -> None:
        try:
            job = await self._jobs.submit(record, action.request)
        except NotSubmitted as error:
            for pod in action.pods:
                if pod.spec.node_name:
                    await self._outbox.warn(pod, reason="SlurmJobLost", action="Scheduling", note=str(error))
                else:
                    cause = act.WaitCause.NOT_SUBMITTED
                    self._outbox.report(record, act.Report(pod=pod, message=str(error), cause=cause))
            return
        if job is not None:
            self._outbox.note_job((pod for pod in action.pods if not pod.spec.node_name), record.jobs[job].asked)

    async def _change(self, record: GangRecord, action: act.UpdateTerms) -> None:
        job, pod, change = f"Slurm job {action.job}", action.pod, action.change
        kept = f"{job} keeps the options with which it was submitted: {change.refusal}" if change.refusal else ""
        refusal = await self._jobs.change(record, action)
        if refusal is None:
            return  # the job is gone
        if refusal:
            kept = f"{job} stays as it is: {refusal}"
        elif str(change):
            await self._outbox.inform(pod, reason="JobChanged", action="Scheduling", note=f"{job}: {change}")
        if not refusal and (known := record.jobs.get(action.job)) is not None:
            self._outbox.note_job([pod], known.asked, at_once=True)
        if kept:
            await self._outbox.warn(pod, reason="JobNotChanged", action="Scheduling", note=kept)

    async def _bind(self, record: GangRecord, action: act.Bind) -> None:
        try:
            await self._binder.bind(record, action)
        except Refused as refused:
            match action.if_refused:
                case act.IfRefused.GIVE_BACK:
                    await self._give_back(record, action, refused)
                case act.IfRefused.WAIT:
                    self._report_refused(record, refused)
                case act.IfRefused.GO_SOLO:
                    await self._go_solo(action, refused)
            return
        bound = record.member(action.bindings[0].pod).assumed is not None
        if bound and action.final_because:
            note = f"if Slurm takes the nodes back, nobody makes new pods in place of these: {action.final_because}"
            leader = action.bindings[0].pod
            await self._outbox.inform(leader, reason="PreemptionIsFinal", action="Binding", note=note)

    async def _bind_directly(self, record: GangRecord, action: act.BindDirectly) -> None:
        try:
            await self._binder.bind_directly(record, action)
        except Refused as refused:
            self._report_refused(record, refused)

    def _report_refused(self, record: GangRecord, refused: Refused) -> None:
        """Report on a pod that its node would refuse it, and record when the pod is tried on that node again. This is
        for a pod on which no other pod depends: its job is not cancelled.
        """
        leader, why = self._leader, str(refused)
        record.note_refusal(refused.pod, why, now=leader.clock(), first_s=leader.settings.times.again_s)
        self._outbox.report(record, act.Report(pod=refused.pod, message=why, cause=act.WaitCause.KUBELET))

    async def _go_solo(self, action: act.Bind, refused: Refused) -> None:
        """Take a pod that its node would refuse out of its gang: it becomes a gang of its own, with a job of its own.
        Warn about that by an Event. The other pods of its former gang go on. Their job keeps the refused pod's node
        until the job ends.
        """
        note = (
            f"{refused}: the pod gets a job of its own; Slurm job {action.job} of its gang keeps "
            f"{action.bindings[0].note.slurm_node} until it ends"
        )
        await self._outbox.warn(refused.pod, reason="SeatRefused", action="Binding", note=note)
        self._members.make_solo(refused.pod)

    async def _give_back(self, record: GangRecord, action: act.Bind, refused: Refused) -> None:
        """Cancel the gang's Slurm job, because a node would refuse one of the pods, and warn by an Event that says when
        the next job follows. The next jobs avoid that node for a while, if there are others.
        """
        now, why = self._leader.clock(), str(refused)
        node = next(binding.note.slurm_node for binding in action.bindings if binding.pod.uid == refused.pod.uid)
        record.refusals[node] = (why, now + self._leader.settings.times.node_refused_s)
        then = record.give_back(why, kind=refused.kind, now=now)
        note = f"{why}; Slurm job {action.job} is cancelled; {then}"
        await self._outbox.warn(refused.pod, reason="FailedScheduling", action="Binding", note=note)
        await self._jobs.cancel(record, action.job, why=why)


def _said(warning: act.Warn) -> tuple[str, str, str]:
    """Return what identifies a warning: the pod's uid, the reason and the text. A warning that was also given at the
    last decision about the gang is not written again, because thousands of waiting gangs have warnings.
    """
    return (warning.pod.uid, warning.reason, warning.note)

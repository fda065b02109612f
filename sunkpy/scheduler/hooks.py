"""What prologs and epilogs ask: each call notes what it proves, and is answered when the gang's view allows.

A prolog proves that its job has the node, an epilog that it has lost it. What they wait for is decided in
`sunkpy.core.gang.hooks`; a call waits `LONG_POLL_S` at most and is then told to ask again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import structlog

from sunkpy.core.gang.hooks import epilog_waits_for, is_covered_by_another, prolog_waits_for
from sunkpy.core.gang.identity import GangId, parse_comment
from sunkpy.core.gang.view import has_left_node
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId
from sunkpy.runtime.queue import WorkQueue
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.entries import GangEntry
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.members import MemberIndex
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.node_auth import NodeAuth
from sunkpy.scheduler.pod_writer import PodWriter
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import NotFound

LONG_POLL_S = 20.0


class HookCall(msgspec.Struct, frozen=True):
    """The body of a call."""

    job_id: JobId
    node: str


class HookAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of an answer."""

    done: bool
    why: str = ""


class Hooks:
    """Prologs and epilogs of one leader."""

    def __init__(
        self,
        *,
        auth: NodeAuth,
        slurm: Slurm,
        slurm_user: str,
        pods: PodWriter,
        ledger: Ledger,
        queue: WorkQueue[GangId],
        collector: Collector,
        members: MemberIndex,
        metrics: SchedulerMetrics,
        clock: Callable[[], float],
    ) -> None:
        self.auth = auth
        self._slurm = slurm
        self._slurm_user = slurm_user
        self._pods = pods
        self._ledger = ledger
        self._queue = queue
        self._collector = collector
        self._members = members
        self._metrics = metrics
        self._clock = clock
        self._log = structlog.get_logger("hooks")

    async def prolog(self, call: HookCall, caller: Pod) -> HookAnswer:
        """Note that the job has this node, and wait until its pods are bound."""
        entry = await self._entry(call.job_id)
        if entry is None:
            return HookAnswer(done=True, why="not the job of a pod")
        job = self._ledger.add_job(entry, call.job_id)
        if call.node not in job.prologs:
            self._log.info("prolog", job=call.job_id, node=call.node, gang=str(entry.id))
            job.prologs[call.node] = self._clock()
            job.epilogs.pop(call.node, None)
            self._queue.add(entry.id)

        async def waits_for() -> str | None:
            return prolog_waits_for(self._collector.view(entry), call.job_id)

        return await self._until_nothing(entry, waits_for)

    async def epilog(self, call: HookCall, caller: Pod) -> HookAnswer:
        """Note that the job has lost this node, and wait until its pods are gone from it."""
        entry = await self._entry(call.job_id)
        if entry is None:
            return HookAnswer(done=True, why="not the job of a pod")
        job = self._ledger.add_job(entry, call.job_id)
        if call.node not in job.epilogs:
            self._log.info("epilog", job=call.job_id, node=call.node, gang=str(entry.id))
            job.epilogs[call.node] = self._clock()
            self._queue.add(entry.id)
        first_at = job.epilogs[call.node]

        async def waits_for() -> str | None:
            view = self._collector.view(entry)
            if why := epilog_waits_for(view, call.job_id, call.node):
                return why
            if entry.is_binding_open:
                return "a binding is under way"
            if is_covered_by_another(view, call.job_id):
                return None
            return await self._still_there(entry, caller)

        answer = await self._until_nothing(entry, waits_for)
        if answer.done:
            self._metrics.handover_seconds.observe(self._clock() - first_at)
        return answer

    async def _still_there(self, entry: GangEntry, caller: Pod) -> str | None:
        """The last word is the apiserver's own, for a watch may lag: is a pod on the caller's node after all?"""
        left = [
            "/".join(pod.key)
            for pod in await self._pods.left_of(entry, id_of=self._members.id_of)
            if pod.spec.node_name == caller.spec.node_name and not has_left_node(pod)
        ]
        return f"pod {', '.join(left)} is not gone yet" if left else None

    async def _until_nothing(self, entry: GangEntry, waits_for: Callable[[], Awaitable[str | None]]) -> HookAnswer:
        deadline = self._clock() + LONG_POLL_S
        while True:
            changed = entry.next_change()
            why = await waits_for()
            if why is None:
                return HookAnswer(done=True)
            left_s = deadline - self._clock()
            if left_s <= 0:
                return HookAnswer(done=False, why=why)
            await changed.wait_for(left_s)

    async def _entry(self, job_id: JobId) -> GangEntry | None:
        """The gang of a job; None when the job is not one of ours.

        A job that the ledger does not know was submitted by an earlier leader, or its submit was never answered.

        Raises:
            SlurmError: Slurm could not be asked.
        """
        entry = self._ledger.by_job(job_id)
        if entry is not None:
            return entry
        try:
            job = await self._slurm.job(job_id)
        except NotFound:
            return None
        gang = parse_comment(job.comment)
        if gang is None or job.user != self._slurm_user:
            return None
        return self._ledger.ensure(gang)

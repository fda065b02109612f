"""What prologs and epilogs ask: each call notes what it proves, and is answered when the gang's view allows.

A prolog proves that its job has the node, an epilog that it has lost it, once Slurm itself has said that this job is
one of ours and has this node: a node may speak of nothing else. What they wait for is decided in
`sunkpy.core.gang.hooks`; a call waits `LONG_POLL_S` at most and is then told to ask again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from sunkpy.core.gang.hooks import epilog_keeps_pods, epilog_waits_for, is_covered_by_another
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.view import has_left_node
from sunkpy.core.model.objects import Pod
from sunkpy.runtime.queue import WorkQueue
from sunkpy.scheduler.adopt import Adoption
from sunkpy.scheduler.calls import (
    ELSEWHERE,
    FORGOTTEN,
    GIVEN_UP,
    LOST,
    NOT_OURS,
    PARTED,
    Forgotten,
    HookAnswer,
    HookCall,
    NotThere,
)
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.entries import GangEntry, JobEntry
from sunkpy.scheduler.gate import Gate
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.members import MemberIndex
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.moments import Moment, Moments
from sunkpy.scheduler.node_auth import NodeAuth
from sunkpy.scheduler.noted_jobs import noted_job
from sunkpy.scheduler.pod_writer import PodWriter

LONG_POLL_S = 20.0
_LATE_STATE_S = 1.0


class Hooks:
    """Prologs and epilogs of one leader."""

    def __init__(
        self,
        *,
        auth: NodeAuth,
        adoption: Adoption,
        gate: Gate,
        pods: PodWriter,
        ledger: Ledger,
        queue: WorkQueue[GangId],
        collector: Collector,
        members: MemberIndex,
        metrics: SchedulerMetrics,
        clock: Callable[[], float],
    ) -> None:
        self.auth = auth
        self._adoption = adoption
        self._claims = gate.claims
        self._gate = gate
        self._pods = pods
        self._ledger = ledger
        self._queue = queue
        self._collector = collector
        self._moments = Moments(collector.view)
        self._members = members
        self._metrics = metrics
        self._vanished = gate.vanished
        self._clock = clock
        self._log = structlog.get_logger("hooks")

    async def answer(self, hook: str, call: HookCall, caller: Pod) -> HookAnswer:
        """The answer to `prolog`, `epilog` or `gate`.

        Raises:
            Denied: the node may not say this.
            SlurmError, KubeError: what has to be known could not be read.
        """
        ask = {"prolog": self.prolog, "epilog": self.epilog, "gate": self._gate.ask}[hook]
        try:
            return await ask(call, caller)
        except Forgotten:
            return FORGOTTEN
        except NotThere:
            if hook != "epilog":
                raise
            # A slurmctld that was killed and forgot the start has the job in the queue, or elsewhere, and nobody is to
            # be blamed. Nothing follows from the call: as long as the mark stays, the gate looks for pods.
            return ELSEWHERE

    async def prolog(self, call: HookCall, caller: Pod) -> HookAnswer:
        """Note that the job has this node, and wait until its pods are bound."""
        claim = await self._claims.of(call)
        if claim is None:
            return NOT_OURS
        entry, job = claim
        self._adoption.hurry(entry)
        if job.view(self._clock()).is_over:
            return HookAnswer(done=True, why="the job has ended")
        if call.node not in job.prologs:
            self._log.info("prolog", job=call.job_id, node=call.node, gang=str(entry.id))
            job.prologs[call.node] = self._clock()
            job.epilogs.pop(call.node, None)
            self._queue.add(entry.id)

        async def waits_for(moment: Moment) -> str | None:
            return self._adoption.why_unknown(entry) or moment.prolog_waits_for(call.job_id, call.node)

        return await self._until_nothing(entry, caller, waits_for)

    async def epilog(self, call: HookCall, caller: Pod) -> HookAnswer:
        """Note that the job has lost this node, and wait until its pods are gone from it."""
        claim = await self._claims.of(call)
        if claim is None:
            return NOT_OURS
        entry, job = claim
        self._adoption.hurry(entry)
        if call.node not in job.epilogs and await self._claims.still_runs(entry, job):
            if job.nodes and call.node not in job.nodes:
                self._queue.add(entry.id)
                return GIVEN_UP
            await entry.next_change().wait_for(_LATE_STATE_S)
            return HookAnswer(done=False, why=f"Slurm says that job {job.id} runs: it has lost no node")
        if call.node not in job.epilogs:
            self._log.info("epilog", job=call.job_id, node=call.node, gang=str(entry.id))
            job.epilogs[call.node] = self._clock()
            self._queue.add(entry.id)
        first_at = job.epilogs[call.node]

        async def waits_for(moment: Moment) -> str | None:
            if unknown := self._adoption.why_unknown(entry) or self._aside_on(caller.spec.node_name, entry, job):
                return unknown
            view = moment.view
            if epilog_keeps_pods(view, call.job_id):
                return None
            binding = "a binding is under way" if entry.is_binding_open else None
            if why := epilog_waits_for(view, call.job_id, call.node) or binding:
                return why
            if is_covered_by_another(view, call.job_id, call.node):
                return None
            if why := self._vanished.keeps(caller.spec.node_name, call.job_id):
                return why
            return await self._still_there(entry, caller)

        answer = await self._until_nothing(entry, caller, waits_for)
        if not answer.done:
            return answer
        self._metrics.handover_seconds.observe(self._clock() - first_at)
        return self._kept(entry, call, caller) or answer

    def _kept(self, entry: GangEntry, call: HookCall, caller: Pod) -> HookAnswer | None:
        """Why the mark of the job stays although its epilog may end; None when it goes."""
        if epilog_keeps_pods(self._collector.view(entry), call.job_id):
            return LOST
        return PARTED if self._gate.keeps_shut(call, caller.spec.node_name, beside=entry) else None

    def _aside_on(self, node: str, entry: GangEntry, job: JobEntry) -> str | None:
        """A pod there says that it is under this job, and it is not known yet to which gang it belongs."""
        for pod in self._members.on_node(node):
            is_meant = pod.metadata.namespace == entry.id.namespace and noted_job(pod) == job.id
            if is_meant and self._members.aside(pod.uid) is not None and not has_left_node(pod):
                return f"pod {'/'.join(pod.key)} is on the node and its gang is not known yet"
        return None

    async def _still_there(self, entry: GangEntry, caller: Pod) -> str | None:
        """The last word is the apiserver's own, for a watch may lag: is a pod on the caller's node after all?

        A pod never changes its node: those that were seen elsewhere are not asked for, or the epilogs of a gang would
        cost the square of its size.
        """
        known = self._members.pods_of(entry.id)
        elsewhere = {pod.uid for pod in known if pod.spec.node_name not in ("", caller.spec.node_name)}
        found = await self._pods.left_of(entry, id_of=self._members.resolve, but=elsewhere)
        entry.prune()
        left = [
            "/".join(pod.key) for pod in found if pod.spec.node_name == caller.spec.node_name and not has_left_node(pod)
        ]
        return f"pod {', '.join(left)} is not gone yet" if left else None

    async def _until_nothing(
        self, entry: GangEntry, caller: Pod, waits_for: Callable[[Moment], Awaitable[str | None]]
    ) -> HookAnswer:
        deadline = self._clock() + LONG_POLL_S
        moment = self._moments.new(entry)
        while True:
            changed = entry.next_change()
            why = await waits_for(moment)
            if why is None:
                return HookAnswer(done=True)
            left_s = deadline - self._clock()
            if left_s <= 0:
                return HookAnswer(done=False, why=why)
            await changed.wait_for(min(left_s, self._vanished.left_s(caller.spec.node_name)))
            moment = self._moments.same(entry)

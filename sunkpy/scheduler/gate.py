"""The gate: the prolog of a job, whoever made it, asks whether pods of earlier jobs have left its node.

Asked only on nodes where a placeholder job has left a mark, for Slurm forgets an epilog that was cut short. A pod whose
own job was lost, not ended, is let live as long as its node is nobody else's: when it is, and no new job came to cover
the pod meanwhile, the pod has to go.

What the ledger remembers may be a poll old, or as old as an outage of Slurm, and the watch may not show a binding yet.
So before it opens, Slurm itself is asked for the states of the jobs that have a mark or a pod there, and for the nodes
of those that run: no state tells that one was taken from a job, or that its number is another's now. And the gangs of
the marks are looked at, with the bindings that were sent for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

import structlog

from sunkpy.core.gang.hooks import gate_waits_for
from sunkpy.core.gang.identity import GangId, parse_comment
from sunkpy.core.gang.view import has_left_node
from sunkpy.core.model import hostlist
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId, is_job_ended, is_job_running
from sunkpy.runtime.queue import WorkQueue
from sunkpy.scheduler.adopt import Adoption
from sunkpy.scheduler.calls import HookAnswer, HookCall
from sunkpy.scheduler.claims import Claims
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.entries import GangEntry
from sunkpy.scheduler.fan_out import fan_out
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.members import MemberIndex
from sunkpy.scheduler.noted_jobs import noted_job
from sunkpy.scheduler.vanished import Vanished
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import NotFound

States = Mapping[JobId, frozenset[str]]

COVER_PATIENCE_S = 10.0
_LONG_POLL_S = 20.0
_LOOK_AGAIN_S = 1.0


class Gate:
    """Answers for all nodes of the cluster."""

    def __init__(
        self,
        *,
        slurm: Slurm,
        claims: Claims,
        adoption: Adoption,
        collector: Collector,
        members: MemberIndex,
        ledger: Ledger,
        queue: WorkQueue[GangId],
        vanished: Vanished,
        clock: Callable[[], float],
    ) -> None:
        self._slurm = slurm
        self.claims = claims
        self._adoption = adoption
        self._collector = collector
        self._members = members
        self._ledger = ledger
        self._queue = queue
        self.vanished = vanished
        self._clock = clock
        self._log = structlog.get_logger("gate")

    async def ask(self, call: HookCall, caller: Pod) -> HookAnswer:
        """Open, or what it waits for; when it opens, which of the marks on the node stand for nothing any more.

        Raises:
            SlurmError: Slurm could not be asked about a mark that nobody here knows.
        """
        began = known_since = self._clock()
        for entry in self._near(call, caller.spec.node_name):
            self._adoption.hurry(entry)
        while True:
            blocked = self._blocked(call, caller.spec.node_name)
            if blocked is None:
                states = await self._states(call, caller.spec.node_name)
                blocked = self._blocked(call, caller.spec.node_name, states)
                if blocked is None:
                    return HookAnswer(done=True, over=self._over(call.marked, states))
            gang, why = blocked
            now = self._clock()
            if gang is None:
                known_since = now
            elif now - known_since >= COVER_PATIENCE_S:
                await self._displace(gang, call)
            if now - began >= _LONG_POLL_S:
                return HookAnswer(done=False, why=why)
            if gang is None:
                await asyncio.sleep(_LOOK_AGAIN_S)
            else:
                await gang.next_change().wait_for(_LOOK_AGAIN_S)

    def _blocked(self, call: HookCall, node: str, states: States | None = None) -> tuple[GangEntry | None, str] | None:
        """The first gang that keeps the gate shut, None if it is not known yet, and why; `states`: what Slurm has just
        said, if it was asked.
        """
        if (why := self.vanished.keeps(node)) is not None:
            return None, why
        for pod in self._members.on_node(node):
            is_unknown = self._ledger.get(self._members.find_id(pod)) is None
            if is_unknown and self._came_by_a_mark(call, pod) and not has_left_node(pod):
                return None, f"pod {'/'.join(pod.key)} is on the node and its gang is not known yet"
        for entry in self._near(call, node):
            if (why := self._adoption.why_unknown(entry)) is not None:
                return None, why
            view = self._collector.here(entry, node)
            is_own = parse_comment(call.gang) == entry.id
            why = gate_waits_for(view, call.job_id, call.node, told_of=states, is_own=is_own)
            if why is not None and (view.bound_to is not None or view.bound_job or self._has_mark(call, node, entry)):
                return entry, why
        return None

    def _has_mark(self, call: HookCall, node: str, entry: GangEntry) -> bool:
        there = (pod for pod in self._members.on_node(node) if self._members.find_id(pod) == entry.id)
        return any(self._came_by_a_mark(call, pod) for pod in there)

    def _came_by_a_mark(self, call: HookCall, pod: Pod) -> bool:
        """A job brought the pod here, as far as its note and the marks of the node agree, if no leader remembers it.

        Whoever may make pods may put one on any node by its name, for as long as they like: that is no job's, as pods
        of other schedulers are not.
        """
        job = noted_job(pod)
        if job is None or job not in call.marked:
            return False
        whose, id = self._ledger.by_job(job), self._members.find_id(pod)
        if whose is None or id is None:
            return whose is None or whose.id.namespace == pod.metadata.namespace
        return whose.id.uid == id.uid

    def _near(self, call: HookCall, node: str) -> list[GangEntry]:
        """Gangs that have a pod on the node, as far as the watch shows, or a mark there."""
        on_node = (self._ledger.get(self._members.find_id(pod)) for pod in self._members.on_node(node))
        marked = (self._ledger.by_job(job) for job in call.marked)
        return list({entry.id: entry for entry in (*on_node, *marked) if entry is not None}.values())

    async def _states(self, call: HookCall, node: str) -> States:
        """What Slurm says now of the jobs that have a mark or a pod on the node; the ledger learns it."""
        near = self._near(call, node)
        asked_for = set(call.marked) | {entry.bound_to for entry in near if entry.bound_to is not None}
        if not asked_for:
            return {}
        asked_at = self._clock()
        states = await self._slurm.jobs_state(sorted(asked_for))
        for job, state in states.items():
            entry = self._ledger.by_job(job)
            if entry is not None and entry.jobs[job].observe(state, asked_at=asked_at):
                self._queue.add(entry.id)
        others: set[JobId] = set()
        await fan_out(partial(self._read_again, entry, states, others) for entry in near)
        return {job: state for job, state in states.items() if job not in others}

    async def _read_again(self, entry: GangEntry, states: States, others: set[JobId]) -> None:
        """An administrator may take nodes from a running job, or its Epilog there was cut short; and its number may be
        another's since slurmctld was killed: that goes to `others`.
        """
        job = entry.jobs.get(entry.bound_to) if entry.bound_to is not None else None
        if job is None or not (is_job_running(job.state) or job.is_doubted):
            return
        before = (job.nodes, job.state, job.missing)
        try:
            await self.claims.read_again(entry, job)
        except NotFound:
            if job.id in states:
                others.add(job.id)
                job.lose_number()
        if (job.nodes, job.state, job.missing) != before:
            self._queue.add(entry.id)

    def keeps_shut(self, call: HookCall, node: str, *, beside: GangEntry) -> bool:
        """Pods that were set apart from this gang are there, and no job of theirs has the node."""
        parted = (other for other in self._near(call, node) if other is not beside and other.id.uid == beside.id.uid)
        return any(gate_waits_for(self._collector.view(other), call.job_id, call.node) for other in parted)

    async def _displace(self, entry: GangEntry, call: HookCall) -> None:
        """Slurm has given the node to this job. Of a gang whose job was lost, the pods there go."""
        own = self._collector.view(entry).bound_job
        if (own is not None and not own.is_lost) or call.node in entry.displaced or not await self._has_node(call):
            return
        self._log.warning("displaced", gang=str(entry.id), node=call.node, by=call.job_id)
        entry.displaced[call.node] = call.job_id
        self._queue.add(entry.id)

    async def _has_node(self, call: HookCall) -> bool:
        """The job that asks was not cancelled meanwhile, and no node says so of a job that is not there."""
        try:
            job = await self._slurm.job(call.job_id)
        except NotFound:
            return False
        return not job.is_ended and call.node in hostlist.expand(job.nodes)

    def _over(self, marked: tuple[JobId, ...], states: States) -> tuple[JobId, ...]:
        """The marks of jobs that hold nothing: ended, or not known to Slurm at all. Asked once the gate is open.

        Until all jobs are known, those that nobody knows stay.
        """
        ended = (job for job in marked if job not in states or is_job_ended(states[job]))
        return tuple(job for job in ended if not self._holds(job))

    def _holds(self, job: JobId) -> bool:
        """A gang is known to live under the job, or to have been bound under it and to be there still."""
        entry = self._ledger.by_job(job)
        if entry is None:
            return not self._ledger.is_whole
        view = self._collector.view(entry)
        is_live = any(known.id == job and known.is_live for known in view.jobs)
        return is_live or (view.bound_to == job and not all(has_left_node(pod) for pod in view.pods))

"""The gate: before a job starts on a node, its Prolog asks whether pods of earlier jobs have left the node.

The Prolog asks only if the node has a marker, a file that stands for a placeholder job that may still have pods there.
This is needed because Slurm forgets an Epilog that was cut short. A pod whose job was lost, and not ended, stays as
long as no other job gets its node. If another job gets the node, and no replacement job takes over the pod in time, the
pod is evicted.

What the scheduler knows of jobs may be as old as the last poll or a failure of Slurm, and the watch may not show a
binding yet. So before the gate opens, Slurm is asked for the states of the jobs that have a marker or a pod on the
node, in one request for all gates that ask at about the same time. A state does not show that a job of several nodes
has lost one of them, so such jobs are read one by one. A job of one node that loses the node is requeued, which the
polls show.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence, Set
from functools import partial

import structlog
from msgspec.structs import replace

from sunkpy.core.gang.hooks import gate_waits_for
from sunkpy.core.gang.identity import noted_job, parse_comment
from sunkpy.core.gang.job.job import Job, is_news
from sunkpy.core.gang.phases import has_left_node
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId, JobStates, is_job_ended, is_job_running
from sunkpy.runtime.fan_out import fan_out
from sunkpy.runtime.fresh_answer import FreshAnswer
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.hooks.messages import LONG_POLL_S, HookAnswer, HookCall
from sunkpy.scheduler.hooks.proof import HookProof
from sunkpy.scheduler.jobs.poll import JobPoller
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.pods.index import PodsByGang
from sunkpy.scheduler.pods.vanished import Vanished
from sunkpy.scheduler.record import GangRecord
from sunkpy.scheduler.takeover import Takeover
from sunkpy.slurm.errors import NotFound

MOST_IDS = 500
"""The most job IDs in one request. For more, the states of all jobs are read."""


class SharedStates:
    """Reads the states of jobs for many callers: calls at about the same time share one request to Slurm. `ask` makes
    the request: it gets the IDs of the jobs, or no IDs to ask for all jobs. `clock` returns monotonic seconds.
    """

    def __init__(
        self, ask: Callable[[Sequence[JobId]], Awaitable[JobStates]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask
        self._wanted: list[Set[JobId]] = []
        self._reads = FreshAnswer(self._ask_for_all, clock=clock)

    async def get(self, jobs: Set[JobId]) -> tuple[dict[JobId, frozenset[str]], float]:
        """Return the states of these jobs, and when Slurm was asked, which is after this call. Jobs that Slurm does not
        know are left out.

        Raises:
            SlurmError: Slurm could not be asked.
        """
        self._wanted.append(jobs)
        try:
            answer, asked_at = await self._reads.get()
        finally:
            self._wanted.remove(jobs)
        return {job: answer[job] for job in jobs if job in answer}, asked_at

    async def _ask_for_all(self) -> JobStates:
        """Ask Slurm for the states of the jobs that all waiting callers want. A caller that came while the request was
        under way needs the next request.
        """
        wanted = sorted(set[JobId]().union(*self._wanted))
        return await self._ask(wanted if len(wanted) <= MOST_IDS else ())


class Gate:
    """Answers, for all nodes of the cluster, the question of a Prolog whether its job may start on a node: pods of
    earlier jobs must have left the node first.
    """

    def __init__(
        self,
        leader: Leader,
        members: PodsByGang,
        takeover: Takeover,
        collector: Collector,
        vanished: Vanished,
        proof: HookProof,
        poller: JobPoller,
    ) -> None:
        self._leader = leader
        self._times = leader.settings.times
        self._ledger = leader.ledger
        self._members = members
        self._takeover = takeover
        self._collector = collector
        self._vanished = vanished
        self._proof = proof
        self._poller = poller
        self._job_states = SharedStates(leader.slurm.jobs_state, clock=leader.clock)
        self._log = structlog.get_logger("gate")

    async def ask(self, call: HookCall, caller: Pod) -> HookAnswer:
        """Answer a Prolog whether its job may start: whether pods of earlier jobs have left the node, or what has to
        happen before. If the job may start, the answer names the jobs whose marker files the node can remove. A marker
        file says that a job may have pods on the node.

        Pods of a lost job are evicted if they stay on the node too long. After `LONG_POLL_S` the answer is to ask
        again.

        Raises:
            SlurmError: Slurm could not be asked for the states of the jobs that have a marker file or a pod on the
                node.
        """
        node, began = caller.spec.node_name, self._leader.clock()
        known_since = began
        for record in self._near(call, node):
            self._takeover.hurry(record)
        while True:
            # 1. The ledger keeps the gate shut, or else Slurm's answer does.
            blocked = self._blocked(call, node)
            states: JobStates = {}
            if blocked is None:
                states = await self._states(call, node)
                blocked = self._blocked(call, node, states)
            # 2. Nothing does: open it.
            if blocked is None:
                return HookAnswer(done=True, over=self._over(call.marked, states))
            # 3. A gang that keeps the node has had its time for a replacement: its pods have to go.
            gang, why = blocked
            now = self._leader.clock()
            if gang is None:
                known_since = now
            elif now - known_since >= self._times.displace_after_s:
                await self._displace(gang, call)
            # 4. Wait for a change of the gang.
            if now - began >= LONG_POLL_S:
                return HookAnswer(done=False, why=why)
            if gang is None:
                await asyncio.sleep(self._times.gate_again_s)
            else:
                await gang.wait_for_change(since=gang.changes, timeout_s=self._times.gate_again_s)

    def _blocked(
        self, call: HookCall, node: str, states: JobStates | None = None
    ) -> tuple[GangRecord | None, str] | None:
        """Return None if the calling job may start on the node. If not, return the gang whose pods are in the way, and
        the reason in words. The gang is None if the scheduler cannot do anything about these pods: their gang or its
        jobs are not known, or a pod was deleted by force.

        `states`: what Slurm has just said of jobs; None if Slurm was not asked.
        """
        if (why := self._vanished.keeps(node)) is not None:
            return None, why
        for pod in self._members.on_node(node):
            is_unknown = self._ledger.get(self._members.find_id(pod)) is None
            if is_unknown and self._is_marked(call, pod) and not has_left_node(pod):
                return None, f"pod {'/'.join(pod.key)} is on the node and its gang is not known yet"
        for record in self._near(call, node):
            if (why := self._takeover.why_unknown(record)) is not None:
                return None, why
            snapshot = self._collector.on_node(record, node)
            is_own = parse_comment(call.gang) == record.id
            why = gate_waits_for(snapshot, call.job_id, call.node, told_of=states, is_own=is_own)
            if why is not None and (
                snapshot.bound_to is not None or snapshot.bound_job or self._has_mark(call, node, record)
            ):
                return record, why
        return None

    def _has_mark(self, call: HookCall, node: str, record: GangRecord) -> bool:
        there = (pod for pod in self._members.on_node(node) if self._members.find_id(pod) == record.id)
        return any(self._is_marked(call, pod) for pod in there)

    def _is_marked(self, call: HookCall, pod: Pod) -> bool:
        """True if the pod's annotations name a job that has a marker file on the node, and nothing that is known
        contradicts the annotations. Only such a pod of an unknown gang keeps other jobs from the node.

        A user who may create pods can bind one to any node by its name. Such a pod belongs to no job, like pods of
        other schedulers, and jobs do not wait for it.
        """
        job = noted_job(pod)
        if job is None or job not in call.marked:
            return False
        whose, id = self._ledger.by_job(job), self._members.find_id(pod)
        if whose is None or id is None:
            return whose is None or whose.id.namespace == pod.metadata.namespace
        return whose.id.shares_owner_with(id)

    def _near(self, call: HookCall, node: str) -> list[GangRecord]:
        """Return the records of the gangs that may have pods on the node: the watch shows a pod there, or the node has
        a marker file of the gang's job.
        """
        on_node = (self._ledger.get(self._members.find_id(pod)) for pod in self._members.on_node(node))
        marked = (self._ledger.by_job(job) for job in call.marked)
        return list({record.id: record for record in (*on_node, *marked) if record is not None}.values())

    async def _states(self, call: HookCall, node: str) -> JobStates:
        """Ask Slurm for the states of the jobs that have a marker file or a pod on the node, record them, and return
        them. A job whose ID Slurm has given to another job is left out.
        """
        near = self._near(call, node)
        asked_for = set(call.marked) | {record.bound_to for record in near if record.bound_to is not None}
        if not asked_for:
            return {}
        states, asked_at = await self._job_states.get(asked_for)
        for job, state in states.items():
            record, observe = self._ledger.by_job(job), partial(Job.observed, state=state, asked_at=asked_at)
            if record is not None and self._ledger.change_job(record, job, observe):
                self._ledger.queue.add(record.id)
        others: set[JobId] = set()
        await fan_out(partial(self._read_again, record, states, others) for record in near)
        return {job: state for job, state in states.items() if job not in others}

    async def _read_again(self, record: GangRecord, states: JobStates, others: set[JobId]) -> None:
        """Read the running job of a gang from Slurm again: an administrator may have taken a node from the job, or its
        Epilog there may have been cut short. A job of one node is not read if polls would have shown that.

        If Slurm has given the job's ID to another job, the ID is added to `others`.
        """
        job = record.jobs.get(record.bound_to) if record.bound_to is not None else None
        if job is None or not is_job_running(job.state):
            return
        if len(job.nodes) == 1 and self._poller.is_watched_since(job.as_of):
            return
        try:
            await self._proof.read_again(record, job.id)
        except NotFound:
            if job.id in states:
                others.add(job.id)
                self._ledger.change_job(record, job.id, lambda known: replace(known, is_anothers=True))
        if (now := record.jobs.get(job.id)) is not None and is_news(now, job):
            self._ledger.queue.add(record.id)

    async def _displace(self, record: GangRecord, call: HookCall) -> None:
        """Let the gang's pods on this node be evicted, if the gang's job was lost and Slurm has given the node to the
        calling job.
        """
        own = self._collector.known(record).bound_job
        if (own is not None and not own.is_lost) or call.node in record.displaced or not await self._has_node(call):
            return
        self._log.warning(
            "another job has a node on which pods of a lost job are",
            gang=str(record.id),
            node=call.node,
            by=call.job_id,
        )
        record.displaced[call.node] = call.job_id
        self._ledger.queue.add(record.id)

    async def _has_node(self, call: HookCall) -> bool:
        """True if Slurm says that the calling job has the calling node, and has not ended."""
        try:
            job = await self._leader.slurm.job(call.job_id)
        except NotFound:
            return False
        return not job.is_ended and call.node in job.nodes

    def _over(self, marked: tuple[JobId, ...], states: JobStates) -> tuple[JobId, ...]:
        """Return those jobs with a marker file on the node that no longer have pods there: they have ended or are
        unknown to Slurm, and no gang has them as a live job or has pods that run under them. The node can remove these
        files. A marker file says that a job may have pods on the node.
        """
        ended = (job for job in marked if job not in states or is_job_ended(states[job]))
        return tuple(job for job in ended if not self._holds(job))

    def _holds(self, job: JobId) -> bool:
        """True if the job is still a live job of a gang, or pods that were bound under it are still on nodes. As long
        as not all jobs of gangs are known, True for each job that is not known.
        """
        record = self._ledger.by_job(job)
        if record is None:
            return not self._ledger.all_jobs_known
        snapshot = self._collector.known(record)
        is_live = any(known.id == job and known.is_live for known in snapshot.jobs)
        return is_live or (snapshot.bound_to == job and not all(has_left_node(pod) for pod in snapshot.pods))

"""Answers Prologs and Epilogs. The call is recorded, the gang of its job is put into the queue for a decision, and the
answer is sent when the gang's snapshot allows that.

A Prolog's call shows that its job has the node, and an Epilog's that its job has lost the node. Before that counts,
Slurm must say that the job belongs to a gang and has this node. `sunkpy.core.gang.hooks` decides what a call waits for.
A call waits `LONG_POLL_S` at most; then the node is told to ask again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from math import inf

import structlog

from sunkpy.core.gang.hooks import (
    epilog_keeps_pods,
    epilog_waits_for,
    gate_waits_for,
    is_covered_by_another,
    prologs_wait_for,
)
from sunkpy.core.gang.identity import noted_job
from sunkpy.core.gang.job.job import Job
from sunkpy.core.gang.phases import has_left_node
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.hooks.messages import (
    ELSEWHERE,
    FORGOTTEN,
    GIVEN_UP,
    LONG_POLL_S,
    LOST,
    PARTED,
    HookAnswer,
    HookCall,
    NotThere,
)
from sunkpy.scheduler.hooks.proof import HookProof, NodeAuth
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.pods.index import PodsByGang
from sunkpy.scheduler.pods.vanished import Vanished
from sunkpy.scheduler.record import GangRecord
from sunkpy.scheduler.takeover import Takeover
from sunkpy.slurm.errors import NotFound

_LATE_STATE_S = 1.0
_Answerer = Callable[[HookCall, Pod], Awaitable[HookAnswer]]
"""A function that answers the call of a slurmd pod.

Raises:
    Denied: this node may not speak for this job.
    SlurmError, KubeError: Slurm or Kubernetes could not be read.
"""


@dataclass(slots=True)
class HookSnapshot:
    """The snapshot of a gang (all that is known of it), made after `changes` changes of the gang. What the Prologs of a
    job wait for is worked out from it once for each job.
    """

    snapshot: Snapshot
    changes: int
    _prologs: dict[JobId, dict[str, str]] = field(default_factory=dict)

    def prolog_waits_for(self, job: JobId, slurm_node: str) -> str | None:
        """Return in words what the Prolog of this job on this node still waits for; None if the Prolog may end."""
        if job not in self._prologs:
            self._prologs[job] = prologs_wait_for(self.snapshot, job)
        return self._prologs[job].get(slurm_node)


class HookSnapshots:
    """Snapshots of gangs (all that is known of a gang), shared by the calls of Prologs and Epilogs.

    Each change of a gang wakes a waiting call for each of the gang's nodes, and each call looks at the whole gang. If
    they did not share the snapshot, the time would grow with the square of the gang's size. A snapshot is used until
    the gang changes, and for one turn of the event loop at most.
    """

    def __init__(self, snapshot: Callable[[GangRecord], Snapshot]) -> None:
        self._snapshot = snapshot
        self._latest: dict[GangRecord, HookSnapshot] = {}

    def new(self, record: GangRecord) -> HookSnapshot:
        """Make a new snapshot of the gang, return it, and keep it for other calls."""
        if record not in self._latest:
            asyncio.get_running_loop().call_soon(self._latest.pop, record, None)
        latest = self._latest[record] = HookSnapshot(self._snapshot(record), changes=record.changes)
        return latest

    def shared(self, record: GangRecord) -> HookSnapshot:
        """Return the snapshot that another call has made since the gang last changed; if there is none, make a
        new one.
        """
        latest = self._latest.get(record)
        return latest if latest is not None and latest.changes == record.changes else self.new(record)


class Hooks:
    """Answers the Prologs and Epilogs that call this leader."""

    def __init__(
        self,
        leader: Leader,
        members: PodsByGang,
        takeover: Takeover,
        collector: Collector,
        vanished: Vanished,
        auth: NodeAuth,
        proof: HookProof,
        ask_gate: _Answerer,
    ) -> None:
        self.auth = auth
        self._leader = leader
        self._ledger = leader.ledger
        self._members = members
        self._takeover = takeover
        self._collector = collector
        self._snapshots = HookSnapshots(collector.known)
        self._vanished = vanished
        self._proof = proof
        self._waiting_since: dict[object, float] = {}
        leader.metrics.oldest_handover_seconds.set_function(self._oldest_handover_s)
        self._log = structlog.get_logger("hooks")
        self.asks: dict[str, _Answerer] = {"prolog": self.prolog, "epilog": self.epilog, "gate": ask_gate}

    async def prolog(self, call: HookCall, caller: Pod) -> HookAnswer:
        """Answer a Prolog: record that its job has this node, and wait until the job's pods are bound to the node.
        After `LONG_POLL_S` the answer is that the node has to ask again.
        """
        proved = await self._proof.of(call)
        if isinstance(proved, HookAnswer):
            return proved
        record, job = proved
        self._takeover.hurry(record)
        if job.is_over:
            return HookAnswer(done=True, why="the job has ended")
        if call.node not in job.prologs:
            self._log.info("prolog", job=call.job_id, node=call.node, gang=str(record.id))
            now = self._leader.clock()
            self._ledger.change_job(record, job.id, lambda known: known.began(call.node, at=now))
            self._ledger.queue.add(record.id)

        async def waits_for(seen: HookSnapshot) -> str | None:
            return self._takeover.why_unknown(record) or seen.prolog_waits_for(call.job_id, call.node)

        return await self._until_nothing(record, waits_for)

    async def epilog(self, call: HookCall, caller: Pod) -> HookAnswer:
        """Answer an Epilog: record that its job has lost this node, and wait until the job's pods have left the node.
        After `LONG_POLL_S` the answer is that the node has to ask again.

        If Slurm does not confirm that the job has ended on this node, this is not recorded. Then either the Epilog may
        end and the pods stay on the node, or the node has to ask again.
        """
        try:
            proved = await self._proof.of(call)
        except NotThere:
            return ELSEWHERE
        if isinstance(proved, HookAnswer):
            return proved
        record, job = proved
        self._takeover.hurry(record)
        if (refusal := await self._refusal(record, job, call.node)) is not None:
            return refusal
        first_at = self._note_epilog(record, record.jobs.get(job.id, job), call.node)

        async def waits_for(seen: HookSnapshot) -> str | None:
            if unknown := self._takeover.why_unknown(record) or self._unknown_on(caller.spec.node_name, record, job):
                return unknown
            snapshot = seen.snapshot
            if epilog_keeps_pods(snapshot, call.job_id):
                return None
            binding = "a binding is under way" if record.is_binding_open else None
            if why := epilog_waits_for(snapshot, call.job_id, call.node) or binding:
                return why
            if is_covered_by_another(snapshot, call.job_id, call.node):
                return None
            if why := self._vanished.keeps(caller.spec.node_name, call.job_id):
                return why
            return await self._left_on(record, caller)

        epilog = object()  # a call whose connection broke may still wait while its repetition comes
        self._waiting_since[epilog] = first_at
        try:
            again_s = partial(self._vanished.left_s, caller.spec.node_name)
            answer = await self._until_nothing(record, waits_for, again_s=again_s)
        finally:
            del self._waiting_since[epilog]
        if answer.done:
            self._leader.metrics.handover_seconds.observe(self._leader.clock() - first_at)
            return self._answer_if_pods_stay(record, call, caller) or answer
        return answer

    def _oldest_handover_s(self) -> float:
        return max((self._leader.clock() - since for since in self._waiting_since.values()), default=0.0)

    async def _refusal(self, record: GangRecord, job: Job, node: str) -> HookAnswer | None:
        """Return the answer to an Epilog if Slurm, when it is asked, says that the job still runs, perhaps without this
        node, or does not know the job. None if the job has ended, so the Epilog counts.

        The Epilog alone proves nothing: slurmctld makes nodes end a job that it does not know, although it has never
        said that the job ended.
        """
        if node in job.epilogs or job.is_ended_by_us:
            return None
        try:
            if not (await self._proof.read_again(record, job.id)).is_running:
                return None
        except NotFound:
            known = record.jobs.get(job.id)
            return None if known is not None and known.is_over else FORGOTTEN
        nodes = record.jobs[job.id].nodes if job.id in record.jobs else ()
        if nodes and node not in nodes:
            self._ledger.queue.add(record.id)
            return GIVEN_UP
        await record.wait_for_change(since=record.changes, timeout_s=_LATE_STATE_S)
        return HookAnswer(done=False, why=f"Slurm says that job {job.id} runs: it has lost no node")

    def _note_epilog(self, record: GangRecord, job: Job, node: str) -> float:
        """Record that the job has lost this node. Return when the job's Epilog on the node called for the first time,
        in seconds of the clock.
        """
        if node in job.epilogs:
            return job.epilogs[node]
        now = self._leader.clock()
        self._log.info("epilog", job=job.id, node=node, gang=str(record.id))
        self._ledger.change_job(record, job.id, lambda known: known.ended(node, at=now))
        self._ledger.queue.add(record.id)
        return now

    def _answer_if_pods_stay(self, record: GangRecord, call: HookCall, caller: Pod) -> HookAnswer | None:
        """Return the answer to an Epilog that may end although pods stay on the node: their job was lost and not ended,
        or they were taken out of the gang and wait for a job of their own. None if no such pods stay.
        """
        if epilog_keeps_pods(self._collector.known(record), call.job_id):
            return LOST
        return PARTED if self._has_solo_gangs_on(caller.spec.node_name, record, call) else None

    def _has_solo_gangs_on(self, node: str, record: GangRecord, call: HookCall) -> bool:
        """True if the node has pods that were taken out of this gang and now are gangs of their own, and no job of
        theirs has the node.
        """
        ids = {id for pod in self._members.on_node(node) if (id := self._members.find_id(pod)) is not None}
        apart = (self._ledger.get(id) for id in ids if id != record.id and id.shares_owner_with(record.id))
        snapshots = (self._collector.known(other) for other in apart if other is not None)
        return any(gate_waits_for(snapshot, call.job_id, call.node) for snapshot in snapshots)

    def _unknown_on(self, node: str, record: GangRecord, job: Job) -> str | None:
        """Return in words for which pod the Epilog has to wait because the pod's gang is not known yet: a pod on the
        node whose annotations name this job. None if there is none.
        """
        for pod in self._members.on_node(node):
            is_meant = pod.metadata.namespace == record.id.namespace and noted_job(pod) == job.id
            if is_meant and self._members.find_id(pod) is None and not has_left_node(pod):
                return f"pod {'/'.join(pod.key)} is on the node and its gang is not known yet"
        return None

    async def _left_on(self, record: GangRecord, caller: Pod) -> str | None:
        """Return in words which pods of the gang are still on the node of the calling slurmd pod; None if none are. The
        apiserver is asked, because a watch may lag behind.

        A pod never changes its node, so the apiserver is not asked about pods that the watch shows on other nodes. If
        it were, the requests for all Epilogs of a gang would grow with the square of the gang's size.
        """
        known = self._members.pods_of(record.id)
        elsewhere = {pod.uid for pod in known if pod.spec.node_name not in ("", caller.spec.node_name)}
        found = await self._leader.pods.left_of(record, but=elsewhere)
        left = [
            "/".join(pod.key) for pod in found if pod.spec.node_name == caller.spec.node_name and not has_left_node(pod)
        ]
        return f"pod {', '.join(left)} is not gone yet" if left else None

    async def _until_nothing(
        self,
        record: GangRecord,
        waits_for: Callable[[HookSnapshot], Awaitable[str | None]],
        *,
        again_s: Callable[[], float] = lambda: inf,
    ) -> HookAnswer:
        """Return the answer to a Prolog or Epilog when `waits_for` returns nothing that it waits for, or after
        `LONG_POLL_S`. It is asked again after each change of the gang, and after `again_s` seconds without one; every
        `gate_again_s` once the gang is over.
        """
        deadline = self._leader.clock() + LONG_POLL_S
        seen = self._snapshots.new(record)
        while True:
            why = await waits_for(seen)
            if why is None:
                return HookAnswer(done=True)
            left_s = deadline - self._leader.clock()
            if left_s <= 0:
                return HookAnswer(done=False, why=why)
            timeout_s = min(left_s, again_s())
            if self._ledger.get(record.id) is not record:  # it is over, and nobody tells when its last pods are gone
                timeout_s = min(timeout_s, self._leader.settings.times.gate_again_s)
            await record.wait_for_change(since=seen.changes, timeout_s=timeout_s)
            seen = self._snapshots.shared(record)

"""The loop over gangs. One pass over a gang makes the gang's value again if the gang has changed, collects what is
known of the gang, decides, carries out the decision, and then looks at the gang again.

The keys of the queue are gang ids. Watches, polls and calls of Prologs and Epilogs only record facts and put gangs into
the queue. Decisions about a gang are carried out in a pass, and a gang has one pass at a time.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from sunkpy.core.gang.actions import Bind, BindDirectly, GangAction, Report, WaitCause
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.decide.ending import IDLE_PATIENCE_S
from sunkpy.core.gang.decide.members import gets_on
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.phases import GangState
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.execute import Executor
from sunkpy.scheduler.jobs.writer import CANCEL_AGAIN_S, SIGNAL_AGAIN_S
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.pods.bind import Binder
from sunkpy.scheduler.pods.gangs import Gangs
from sunkpy.scheduler.pods.index import PodsByGang
from sunkpy.scheduler.record import GangRecord, Grounds
from sunkpy.scheduler.takeover import Takeover

_ADMISSION_AGAIN_S = 0.3
_MOST_UNSEEN = 32


class GangLoop:
    """Makes passes over gangs: a pass decides what to do for one gang, and does it. All parts that the loop is given
    belong to the same leader.
    """

    def __init__(
        self,
        leader: Leader,
        members: PodsByGang,
        gangs: Gangs,
        takeover: Takeover,
        collector: Collector,
        binder: Binder,
        executor: Executor,
    ) -> None:
        self._leader = leader
        self._ledger = leader.ledger
        self._members = members
        self._gangs = gangs
        self._takeover = takeover
        self._collector = collector
        self._binder = binder
        self._executor = executor
        self._policy = leader.settings.policy
        self._log = structlog.get_logger("scheduler")

    async def reconcile(self, id: GangId) -> float | None:
        """Make one pass over a gang: decide what to do for it now, and do it. Return after how many seconds the gang
        needs another pass; None if it needs none before something changes.
        """
        record = self._ledger.get(id)
        if record is None or self._takeover.why_unknown(record) is not None:
            return None
        # 1. Settle bindings that got no answer, and recognise the gang if it may have changed.
        await self._binder.settle(record)
        record.forget_refused_nodes(now=self._leader.clock())
        self._gangs.recognise(record)
        record.is_news = False
        # 2. Collect all that is known of the gang, as one value.
        snapshot, record.grounds = self._collector.snapshot(record)
        before = (record.state, set(record.jobs))
        self._observe(record, snapshot)
        # 3. Decide.
        actions = decide_gang(snapshot, self._policy)
        if record.idle_since is not None and any(map(gets_on, actions)):
            record.idle_since = self._leader.clock()
        # 4. Execute.
        to_bind, to_bind_later = _to_bind(actions)
        record.forget_waits(but=to_bind, refused=to_bind_later)
        await self._executor.run_all(record, actions, is_gone=snapshot.gang is None)
        # 5. Look at it again: forget what has ended, and wake what waits for that.
        self._gangs.recognise(record)
        after = snapshot
        if actions:
            after = self._collector.known(record)
            self._observe(record, after)
        self._note_ends(record, after)
        await self._forget_gone(record)
        record.fire()
        is_done = after.state is GangState.DONE
        if is_done:
            self._forget(record)
        if is_done or before != (record.state, set(record.jobs)):
            self._wake_other_generations(id)
        return None if is_done else self._again_s(record, snapshot)

    def _wake_other_generations(self, id: GangId) -> None:
        for other in self._ledger.other_generations(id):
            if other.state is GangState.WAITING:
                self._ledger.queue.add(other.id)

    def _observe(self, record: GangRecord, snapshot: Snapshot) -> None:
        record.usable = snapshot.usable if snapshot.eligibility is not None else record.usable
        record.grounds = record.grounds if not snapshot.holding else Grounds()
        record.is_several |= snapshot.is_several
        if snapshot.holding or not any(job.is_ready for job in snapshot.jobs):
            record.idle_since = None
        elif record.idle_since is None:
            record.idle_since = self._leader.clock()
        # A pod that had no node has one now, or is gone.
        if all(pod.spec.node_name for pod in snapshot.pods):
            record.is_half_bound = False
        if (state := snapshot.state) is not record.state:
            if record.state is not None:
                self._leader.metrics.gangs.labels(record.state.value).dec()
            self._leader.metrics.gangs.labels(state.value).inc()
            self._log.info("gang", gang=str(record.id), state=state.value, jobs=sorted(record.jobs))
            record.state = state

    async def _forget_gone(self, record: GangRecord) -> None:
        """Remove pods that are gone from the gang's record, if the record has many more pods than the gang: the owner
        replaces its pods again and again. The apiserver is asked about each pod that the watch does not show.
        """
        if len(record.members) > len(record.recognised.pods) + _MOST_UNSEEN:
            seen = {pod.uid for pod in self._members.pods_of(record.id)}
            await self._leader.pods.left_of(record, but=seen)

    def _note_ends(self, record: GangRecord, snapshot: Snapshot) -> None:
        """Remove jobs that have ended, or are lost for good, from the gang's record; a job under which pods are on
        nodes stays. If a job ended before its pods were bound, and the scheduler had not ended it, the gang waits
        before its next job.
        """
        for job in snapshot.jobs:
            if any(pod.spec.node_name for pod in snapshot.pods) and job.id == snapshot.bound_to:
                continue
            if not snapshot.is_bound and not job.is_live and job.id not in record.ends_counted:
                record.ends_counted.add(job.id)
                if not job.is_let_go and job.id != snapshot.bound_to:
                    record.back_off(f"Slurm job {job.id} ended before its pod was bound", now=self._leader.clock())
            if job.is_settled:
                self._ledger.drop_job(record, job.id)

    def _again_s(self, record: GangRecord, snapshot: Snapshot) -> float | None:
        """Return after how many seconds the gang needs another pass even if no change is seen until then; None if only
        a change leads to the next pass.
        """
        now, times = self._leader.clock(), self._leader.settings.times
        if any(member.volume_since is not None for member in record.members.values()):
            return times.volume_again_s
        if any(member.waits_since is not None for member in record.members.values()):
            # Each look costs a request for each node.
            return _ADMISSION_AGAIN_S * max(1.0, len(record.members) / 16)
        if refusals := [member.refusal for member in record.members.values() if member.refusal is not None]:
            return max(0.0, min(refusal.again_at for refusal in refusals) - now) + 0.01
        if now < record.retry_at < float("inf"):  # infinite: the gang stands in a line, which enqueues it
            return record.next_try_at(now) - now + 0.01
        if record.state in (GangState.ENDING, GangState.HANDING_OVER):
            return SIGNAL_AGAIN_S if record.state is GangState.ENDING else times.again_s
        if any(job.is_let_go for job in record.jobs.values()):
            return CANCEL_AGAIN_S
        if snapshot.is_to_be_polled and record.state in (GangState.WAITING, GangState.SUBMITTED):
            return times.other_pods_again_s
        if record.idle_since is not None:
            left_s = record.idle_since + IDLE_PATIENCE_S - now
            return left_s + 0.01 if left_s > 0 else times.again_s
        # A node that refused the gang may be offered to it again.
        ends = [until for _, until in record.refusals.values() if until > now]
        return min(ends) - now + 0.01 if ends else None

    def _forget(self, record: GangRecord) -> None:
        """Remove a gang that is done from the records and the metrics. Its finished pods, which the watch may still
        show, do not make the scheduler record the gang again.
        """
        if record.state is not None:
            self._leader.metrics.gangs.labels(record.state.value).dec()
        self._ledger.forget(record)
        self._members.forget(record.id)


def _to_bind(actions: Iterable[GangAction]) -> tuple[set[str], set[str]]:
    """Return the uids of two groups of pods: those that these actions bind now, and those that are tried later on the
    node that has refused them.
    """
    now, later = set[str](), set[str]()
    for action in actions:
        match action:
            case Bind(bindings=bindings):
                now |= {binding.pod.uid for binding in bindings}
            case BindDirectly(pod=pod):
                now.add(pod.uid)
            case Report(pod=pod, cause=WaitCause.KUBELET):
                later.add(pod.uid)
    return now, later

"""One pass over one gang: collect, decide, execute. And which change wakes which gang.

The queue's key is the gang's id. Hooks, watches and polls only note facts and enqueue; everything that has an effect
happens in a pass, one at a time per gang.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import structlog

from sunkpy.core import names
from sunkpy.core.gang.actions import Bind, BindDirectly, GangAction, Submit
from sunkpy.core.gang.decide import IDLE_PATIENCE_S, decide_gang
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.lifecycle import IllegalMove, State, advance
from sunkpy.core.gang.request import Policy
from sunkpy.core.gang.view import GangView, is_over
from sunkpy.core.model.objects import Pod
from sunkpy.runtime.queue import WorkQueue
from sunkpy.scheduler.adopt import Adoption
from sunkpy.scheduler.bind import Binder
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.entries import GangEntry
from sunkpy.scheduler.execute import EVICT_AGAIN_S, Executor
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.looks import Looks
from sunkpy.scheduler.members import MemberIndex
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.pod_writer import PodWriter
from sunkpy.scheduler.submit import CANCEL_AGAIN_S, TELL_AGAIN_S

_HAND_OVER_AGAIN_S = EVICT_AGAIN_S
_ADMISSION_AGAIN_S = 0.3
_REFUSED_AGAIN_S = 5.0
_NEWS_AGAIN_S = 2.0
_MOST_UNSEEN = 32
_FICKLE_AGAIN_S = 5.0

_OURS = frozenset({
    names.ANNOTATION_JOB_ID, names.ANNOTATION_ASKED, names.ANNOTATION_PLACED_ON, names.ANNOTATION_PLACE,
    names.ANNOTATION_GPU_INDICES,
})  # fmt: skip


class GangLoop:
    """Works on gangs. All its parts belong to one leader."""

    def __init__(
        self,
        *,
        adoption: Adoption,
        collector: Collector,
        executor: Executor,
        binder: Binder,
        pods: PodWriter,
        members: MemberIndex,
        ledger: Ledger,
        queue: WorkQueue[GangId],
        policy: Policy,
        metrics: SchedulerMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._adoption = adoption
        self._collector = collector
        self._executor = executor
        self._binder = binder
        self._pods = pods
        self._members = members
        self._ledger = ledger
        self._queue = queue
        self._policy = policy
        self._metrics = metrics
        self._clock = clock
        self._looks = Looks(collector=collector, ledger=ledger, queue=queue, metrics=metrics)
        self._log = structlog.get_logger("scheduler")

    async def reconcile(self, id: GangId) -> float | None:
        """One pass; when to look again, in seconds."""
        entry = self._ledger.get(id)
        if entry is None or self._adoption.why_unknown(entry) is not None:
            return None  # told when it is known
        await self._binder.settle(entry)
        view = self._collector.view(entry)
        if view.gang is None and view.live_jobs and not await self._is_gone(entry):
            return _HAND_OVER_AGAIN_S
        entry.judged_by = self._collector.judgements(view, entry)
        before = (entry.state, set(entry.jobs))
        self._observe(entry, view)
        actions = decide_gang(view, self._policy)
        entry.wait_for_nothing(but=_to_bind(actions))
        # Before anything is waited for: the next gang that looks must see where this one is about to queue.
        excluded = next((a.request.excluded_nodes for a in actions if isinstance(a, Submit)), ())
        self._ledger.note_sending(entry, excluded)
        try:
            await self._executor.run_all(entry, actions)
        finally:
            entry.sending = ()
        after = self._collector.known(entry) if actions else view
        self._note_ends(entry, after)
        await self._forget_gone(entry)
        entry.fire()
        is_done = after.state is State.DONE and not self._members.has_left_out(id)
        if is_done:
            self._forget(entry)
        if is_done or before != (entry.state, set(entry.jobs)):
            self._wake_other_generations(id)
        return None if is_done else _again_s(entry, self._clock())

    def _wake_other_generations(self, id: GangId) -> None:
        for other in self._ledger.other_generations(id):
            if other.state is State.WAITING:
                self._queue.add(other.id)

    def _observe(self, entry: GangEntry, view: GangView) -> None:
        entry.is_several |= view.is_several
        if not any(job.start_nodes for job in view.jobs) or view.holding:
            entry.idle_since = None
        elif entry.idle_since is None:
            entry.idle_since = self._clock()
        # Whoever had no node yet has one now, or is gone.
        if all(pod.spec.node_name for pod in view.pods):
            entry.is_half_bound = False
        entry.is_fickle = view.is_fickle
        self._note_state(entry, view)

    def _note_state(self, entry: GangEntry, view: GangView) -> None:
        old = None if entry.state is State.DONE else entry.state  # pods came for one that was over: it begins anew
        try:
            state = advance(old, view.state, several=entry.is_several) if old is not None else view.state
        except IllegalMove as error:
            # What is there counts, not what was expected; a person should know all the same.
            self._metrics.illegal_moves.inc()
            self._log.error("unexpected move", gang=str(entry.id), error=str(error))
            state = view.state
        if state is entry.state:
            return
        if entry.state is not None:
            self._metrics.gangs.labels(entry.state.value).dec()
        self._metrics.gangs.labels(state.value).inc()
        self._log.info("gang", gang=str(entry.id), state=state.value, jobs=sorted(entry.jobs))
        entry.state = state

    async def _is_gone(self, entry: GangEntry) -> bool:
        """No pod of the gang is in our watch: ask the apiserver itself before its job is taken away.

        A watch with another selector, or one that has missed something, must not cost anybody a node.
        """
        found = await self._pods.left_of(entry, id_of=self._members.resolve)
        entry.prune()
        for pod in found:
            if not is_over(pod):
                self._log.warning("pod is not watched but there: its job stays", gang=str(entry.id), pod=pod.name)
                return False
        return True

    async def _forget_gone(self, entry: GangEntry) -> None:
        """Of a gang whose pods are made anew again and again, when there are many: each is asked for once."""
        seen = {pod.uid for pod in self._members.pods_of(entry.id)}
        if len(entry.members) > len(seen) + _MOST_UNSEEN:
            await self._pods.left_of(entry, id_of=self._members.resolve, but=seen)
            entry.prune()

    def _note_ends(self, entry: GangEntry, view: GangView) -> None:
        """Forget jobs that are through. After one that ended before its pods were bound, wait before the next."""
        for job in view.jobs:
            if any(pod.spec.node_name for pod in view.pods) and job.id == view.bound_to:
                continue
            known = entry.jobs[job.id]
            if not view.is_bound and not job.is_live and not known.noted:
                known.noted = True
                if known.cancelled_at is None and known.told_at is None and job.id != view.bound_to:
                    entry.back_off(f"Slurm job {job.id} ended before its pod was bound", now=self._clock())
            if job.is_settled:
                self._ledger.drop_job(entry, job.id)

    def _forget(self, entry: GangEntry) -> None:
        """Nothing is left of it; a finished pod that is still listed is not picked up again."""
        if entry.state is not None:
            self._metrics.gangs.labels(entry.state.value).dec()
        self._ledger.forget(entry)
        self._members.forget(entry.id)

    # ---------------------------------------------------------- what changed

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod that names this scheduler came, changed or went."""
        if old is not None and (new is None or new.uid != old.uid):
            self._wake(self._members.id_of(old))
        if new is None:
            return
        id = self._members.id_of(new)
        if is_over(new) and self._ledger.get(id) is None:
            return
        entry = self._ledger.ensure(id)
        entry.member(new)
        if old is not None and old.uid == new.uid:
            if _without_told(old) == _without_told(new):
                return
            if _wishes(old) != _wishes(new):
                entry.forgive()
        self._wake(id)

    def _wake(self, id: GangId) -> None:
        entry = self._ledger.get(id)
        if entry is not None:
            self._queue.add(id)
            entry.fire()

    def gang_changed(self, entry: GangEntry) -> None:
        """Slurm says something new of one of its jobs."""
        self._queue.add(entry.id)

    def slurm_answers_again(self) -> None:
        """The reads before this one failed: what was not answered may be tried at once."""
        for entry in self._ledger.forgive_silence():
            self._queue.add(entry.id)

    def namespace_changed(self, name: str) -> None:
        """Gangs that were refused may be allowed now, or another user's."""
        for entry in self._ledger:
            if entry.id.namespace == name and entry.state in (State.WAITING, State.SUBMITTED):
                self._queue.add(entry.id)

    def nodes_changed(self) -> None:
        """Gangs that wait may fit now, or no longer."""
        self._looks.nodes_changed()


def _again_s(entry: GangEntry, now: float) -> float | None:
    """When to look at a gang again although nothing tells of it, in seconds."""
    if any(member.waits_since is not None for member in entry.members.values()):
        # Each look costs a request for each node.
        return _ADMISSION_AGAIN_S * max(1.0, len(entry.members) / 16)
    if any(member.is_refused for member in entry.members.values()):
        return _REFUSED_AGAIN_S
    if entry.retry_at > now:
        return entry.retry_at - now + 0.01
    if entry.state in (State.ENDING, State.HANDING_OVER):
        return TELL_AGAIN_S if entry.state is State.ENDING else _HAND_OVER_AGAIN_S
    if any(job.cancelled_at is not None or job.told_at is not None for job in entry.jobs.values()):
        return CANCEL_AGAIN_S
    if entry.has_news:
        return _NEWS_AGAIN_S
    if entry.is_fickle and entry.state in (State.WAITING, State.SUBMITTED):
        return _FICKLE_AGAIN_S
    if entry.idle_since is not None:
        return max(0.0, entry.idle_since + IDLE_PATIENCE_S - now) + 0.01
    return None


def _to_bind(actions: Iterable[GangAction]) -> set[str]:
    """Uids of the pods that are to be bound in this pass."""
    together = {binding.pod.uid for action in actions if isinstance(action, Bind) for binding in action.bindings}
    return together | {action.pod.uid for action in actions if isinstance(action, BindDirectly)}


def _without_told(pod: Pod) -> tuple[object, ...]:
    """The pod but for its conditions, and for what is noted of its job while it waits: no pass is needed for these.

    The job of a pod that has a node changes when another one covers it, and then there is more to do.
    """
    meta, status = pod.metadata, pod.status
    ours = () if pod.spec.node_name else (names.ANNOTATION_JOB_ID, names.ANNOTATION_ASKED)
    annotations = {key: value for key, value in pod.annotations.items() if key not in ours}
    bare = msgspec.structs.replace(meta, annotations=annotations, resource_version="")
    return (bare, pod.spec, msgspec.structs.replace(status, conditions=()))


def _wishes(pod: Pod) -> tuple[object, ...]:
    """What a pod's owner can change about it while it waits."""
    annotations = {key: value for key, value in pod.annotations.items() if key not in _OURS}
    return (annotations, pod.spec.scheduling_gates, pod.spec.node_selector, pod.spec.tolerations)

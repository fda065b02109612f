"""What the scheduler remembers of one gang: its jobs, its members, and what was said and refused.

Nothing here must survive the process: a new leader rebuilds it from the comments of jobs and the annotations of pods.
Times are of the monotonic clock, in seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.access import Namespace
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.lifecycle import State
from sunkpy.core.gang.terms import Asked, Terms, last_asked, terms_of
from sunkpy.core.gang.view import MISSING_OBSERVATIONS, GangView, JobView
from sunkpy.core.model import states
from sunkpy.core.model.gres import Indices
from sunkpy.core.model.layout import Layout
from sunkpy.core.model.objects import Key, Pod
from sunkpy.core.model.room import Room
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.core.model.times import backoff_s
from sunkpy.core.placement.eligibility import Eligibility, without
from sunkpy.runtime.queue import Urgency
from sunkpy.scheduler.judgements import Judgement

_BACKOFF_FIRST_S, _BACKOFF_LAST_S = 2.0, 300.0
_REFUSAL_S = 120.0


class Assumption(msgspec.Struct, frozen=True, kw_only=True):
    """A binding that was sent; `confirmed` when the apiserver said yes. The watch may not show it yet.

    Without a job when the pod never queues.
    """

    job: JobId | None
    node: str
    slurm_node: str
    place: str = ""
    gpus: str = ""
    confirmed: bool = False


@dataclass(slots=True)
class MemberEntry:
    """One pod of a gang: the binding that was sent, since when admission is waited for, that it was refused and nothing
    given back, what was told, whether the apiserver has said that it is gone.
    """

    key: Key
    assumed: Assumption | None = None
    waits_since: float | None = None
    is_refused: bool = False
    reported: str = ""
    reported_at: float = float("-inf")
    evicted_at: float = float("-inf")
    shortened_at: float = float("-inf")
    is_gone: bool = False
    _bound: tuple[Pod, Assumption, Pod] | None = field(default=None, repr=False)

    def as_bound(self, pod: Pod) -> Pod:
        """The member with the binding that was sent, while the watch does not show it yet.

        The same object each time, for a gang is put together anew when one of its pods is another.
        """
        if self.assumed is None:
            return pod
        if self._bound is None or self._bound[0] is not pod or self._bound[1] is not self.assumed:
            self._bound = pod, self.assumed, assume(pod, self.assumed)
        return self._bound[2]


@dataclass(slots=True)
class JobEntry:
    """One placeholder job. `told_at`, `heard_at`: when it was first told to end, and when Slurm answered to that;
    `noted`: its end has been counted; `reappeared`: the id is back after Slurm forgot it; `proved`: nodes of which
    Slurm itself has said that the job has them. `terms`: as it was submitted or changed last, else as Slurm has it;
    `turn`: how often it was changed. `user`: whose it is. `is_unproved`: nothing shows that the scheduler has
    submitted it. `is_allocation`: it has no script. `read_at`: when it was last asked for in full; `as_of`: when the
    newest of the answers was asked for. `is_doubted`: its number was listed without its nodes, and it is not read yet
    whether that is still this job. `runs_again`: Slurm has said so since an epilog proved that it ended, for slurmctld
    was killed and has forgotten the end. `filed`: its number in `DueJobs`; `on_change` is called with it when Slurm
    was asked about it, was told something, or has said something new.
    """

    id: JobId
    known_at: float
    user: str = ""
    is_unproved: bool = False
    state: frozenset[str] = frozenset()
    reason: str = ""
    nodes: tuple[str, ...] = ()
    tasks: int = 0
    cpus_per_task: int = 0
    layout: Layout = ()
    devices: dict[str, Indices] = field(default_factory=dict)
    room: dict[str, Room] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    terms: Terms | None = None
    turn: int = 0
    refused_terms: Terms | None = None
    prologs: dict[str, float] = field(default_factory=dict)
    epilogs: dict[str, float] = field(default_factory=dict)
    missing: int = 0
    is_allocation: bool = False
    told_at: float | None = None
    heard_at: float | None = None
    last_told_at: float = 0.0
    cancelled_at: float | None = None
    noted: bool = False
    reappeared: bool = False
    is_doubted: bool = False
    runs_again: bool = False
    proved: set[str] = field(default_factory=set)
    read_at: float = float("-inf")
    as_of: float = float("-inf")
    filed: int = field(default=0, compare=False)
    on_change: Callable[[JobEntry], None] = field(default=lambda _: None, compare=False, repr=False)

    @property
    def has_started(self) -> bool:
        """It has nodes, or had some: no pass over it may wait for those that are only queued."""
        # An allocation has its nodes before anybody has read its state.
        is_known = self.is_allocation or bool(self.state)
        return bool(self.prologs or self.epilogs) or (is_known and not states.is_job_pending(self.state))

    def view(self, now: float) -> JobView:
        """The value that decisions read."""
        return JobView(
            id=self.id,
            state=self.state,
            reason=self.reason,
            nodes=self.nodes,
            tasks=self.tasks,
            cpus_per_task=self.cpus_per_task,
            layout=self.layout,
            devices=self.devices,
            room=self.room,
            excluded=self.excluded,
            required=self.required,
            terms=self.terms,
            refused_terms=self.refused_terms,
            prologs=frozenset(self.prologs) - frozenset(self.epilogs),
            epilogs=frozenset(self.epilogs),
            missing=self.missing,
            told_s_ago=None if self.told_at is None else now - (self.heard_at or now),
            is_cancelled=self.cancelled_at is not None,
            is_allocation=self.is_allocation,
            is_unproved=self.is_unproved,
            runs_again=self.runs_again,
        )

    def observe(self, state: frozenset[str] | None, *, asked_at: float, is_read: bool = False) -> bool:
        """Take in an answer of Slurm to a question sent at `asked_at`; None: it did not know the job.

        Unless the job was read, the number alone costs it no node that it holds: a slurmctld that was killed may have
        given it to another one.
        """
        if state == self.state and not (self.missing or self.is_doubted) and state and "PENDING" not in state:
            # Nothing new: so with nearly all of tens of thousands in each poll.
            return False
        if asked_at < max(self.known_at, *self.prologs.values(), *self.epilogs.values(), 0.0):
            # The answer is older than what a hook has told since.
            return False
        before, called_before = self._seen(), bool(self.prologs or self.epilogs)
        if state is None:
            self.missing += 1
            self.reappeared = self.is_doubted = False
        elif self.missing >= MISSING_OBSERVATIONS:
            # Slurm has forgotten the job once: this may be another one under the same id.
            self.reappeared = True
        elif not is_read and self._holds_nodes and not states.is_job_running(state):
            self.is_doubted, self.missing = True, 0
        else:
            self.state, self.missing, self.is_doubted = state, 0, False
            self.runs_again = bool(self.epilogs) and states.is_job_running(state)
            if "PENDING" in state:
                # Queued again: the hooks of its first run are over.
                self.prologs.clear()
                self.epilogs.clear()
            if "PENDING" in state and "COMPLETING" not in state:
                # And so are its nodes: one of them may speak for it again only when Slurm gives it anew.
                self.proved.clear()
                self.nodes, self.layout, self.devices, self.room = (), (), {}, {}
        after = self._seen()
        if after != before or called_before != bool(self.prologs or self.epilogs):
            self.on_change(self)
        return after[:2] != before[:2]

    def _seen(self) -> tuple[frozenset[str], int, bool, bool]:
        return self.state, self.missing, self.reappeared, self.is_doubted

    def note_read(self, *, at: float) -> None:
        """It is asked for in full at that time, whatever comes of it."""
        self.read_at = at
        self.on_change(self)

    def exclude(self, nodes: tuple[str, ...]) -> None:
        """It may not go to these nodes, and to all others."""
        self.excluded = nodes
        self.on_change(self)

    def read(self, job: SlurmJob, *, nodes: tuple[str, ...], at: float) -> bool:
        """Take in the full job as it was at `at`, unless it is known as it was later.

        Returns: whether anything a decision reads has changed.
        """
        if at < self.as_of:
            return False
        before = self._details()
        self.read_at = self.as_of = at
        if self.reappeared:
            self.missing, self.reappeared = 0, False
        self.user, self.is_unproved = job.user, False
        self.reason = "" if job.state_reason == "None" else job.state_reason
        self.nodes = nodes
        self.tasks, self.cpus_per_task = job.tasks, job.cpus_per_task
        self.layout, self.devices, self.room = job.layout, job.devices, job.room
        self.required = job.required_nodes
        self.excluded = tuple(sorted(job.excluded_nodes))
        self.terms = self.terms or terms_of(job)
        self.is_allocation = not job.is_batch
        changed = self.observe(job.state, asked_at=at, is_read=True)
        self.on_change(self)
        return changed or self._details() != before

    def recall(self, pods: Iterable[Pod]) -> None:
        """What an earlier leader has noted on the pods of the gang, where only Slurm's word is known."""
        if self.terms is not None and self.terms.by_slurm:
            notes = (pod.annotations.get(names.ANNOTATION_ASKED, "") for pod in pods)
            if (asked := last_asked(self.id, self.terms, notes)) is not None:
                self.terms, self.turn = asked.terms, asked.turn

    @property
    def asked(self) -> Asked:
        """What is noted on pods."""
        return Asked(job=self.id, turn=self.turn, terms=self.terms or Terms())

    def lose_number(self) -> None:
        """Another job has its number: Slurm has forgotten this one."""
        self.missing, self.reappeared, self.is_doubted = MISSING_OBSERVATIONS, True, False
        self.on_change(self)

    @property
    def _holds_nodes(self) -> bool:
        return not self.epilogs and (bool(self.prologs) or states.is_job_running(self.state))

    def _details(self) -> tuple[object, ...]:
        """What only a full read tells and a decision looks at."""
        return (
            self.reason,
            self.nodes,
            self.tasks,
            self.cpus_per_task,
            self.layout,
            self.devices,
            self.room,
            self.excluded,
            self.required,
            self.terms,
        )


class Allowed(msgspec.Struct, frozen=True, kw_only=True):
    """A gang with what it may have in its namespace, and the two from which that follows."""

    of: Gang
    namespace: Namespace | None
    gang: Gang


class Change:
    """A change that may come."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    async def wait_for(self, timeout_s: float) -> None:
        """Return when it has come, or after `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._event.wait()


@dataclass(slots=True, eq=False)
class GangEntry:
    """One gang. `uncertain_since`: a submit went out then and was not answered. `idle_since`: since then a job has held
    nodes and no member was there. `is_half_bound`: of pods that were to be bound together some were not. `has_news`:
    something is to be told later. `is_fickle`: pods of others, of which nobody tells, decide where it may go.
    `suspended_for`: the job whose preemption the owner was suspended for. `sending`: the nodes that a job excludes
    which is just being submitted. `judged_by`: all that was asked of the nodes for the last decision; None when more
    than that decides. `allowed`: the gang as it was seen last. `changes`: how many were told of.
    """

    id: GangId
    seen_at: float
    jobs: dict[JobId, JobEntry] = field(default_factory=dict)
    members: dict[str, MemberEntry] = field(default_factory=dict)
    bound_to: JobId | None = None
    displaced: dict[str, JobId] = field(default_factory=dict)
    state: State | None = None
    retry_at: float = 0.0
    failures: int = 0
    refused: str = ""
    refusals: dict[str, tuple[str, float]] = field(default_factory=dict)
    uncertain_since: float | None = None
    idle_since: float | None = None
    is_half_bound: bool = False
    is_several: bool = False
    has_news: bool = False
    is_fickle: bool = False
    suspended_for: JobId | None = None
    sending: tuple[str, ...] = ()
    judged_by: tuple[Judgement, ...] | None = None
    allowed: Allowed | None = None
    changes: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def member(self, pod: Pod) -> MemberEntry:
        """What is remembered of a pod, made known if it was not."""
        return self.members.setdefault(pod.uid, MemberEntry(key=pod.key))

    @property
    def excluded(self) -> tuple[str, ...]:
        """The nodes to which its job may not go; empty without one."""
        jobs = (job for job in self.jobs.values() if job.cancelled_at is None and not states.is_job_ended(job.state))
        return self.sending or next((job.excluded for job in jobs if job.excluded), ())

    @property
    def urgency(self) -> Urgency:
        """Whether nodes wait: first those that wait for pods to go, for others are to have them, then those that wait
        for pods to be bound, which may be thousands at once. A gang that only queues keeps no node waiting.
        """
        own = self.jobs.get(self.bound_to) if self.bound_to is not None else None
        if own is not None and (own.epilogs or states.is_job_ended(own.state)):
            return Urgency.FIRST
        is_soon = self.bound_to is not None or any(job.has_started for job in self.jobs.values())
        return Urgency.SOON if is_soon else Urgency.NONE

    @property
    def is_binding_open(self) -> bool:
        """A binding was sent of which the apiserver has not said what became of it."""
        return any(member.assumed is not None and not member.assumed.confirmed for member in self.members.values())

    def wait_for_nothing(self, *, but: Container[str] = ()) -> None:
        """No member waits for its kubelet any more, except those with these uids."""
        for uid, member in self.members.items():
            if uid not in but:
                member.waits_since, member.is_refused = None, False

    def prune(self) -> None:
        """Forget members that the apiserver has said are gone; not the last, by which the gang's pods are known."""
        left = {uid: member for uid, member in self.members.items() if not member.is_gone}
        self.members = left or dict(list(self.members.items())[-1:])

    def now_under(self, job: JobId | None) -> None:
        """The members run under this job: whoever was given their nodes before has nothing to do with it."""
        self.bound_to = job
        self.displaced.clear()

    def fire(self) -> None:
        """Wake everybody who waits for a change of this gang."""
        self.changes += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def next_change(self) -> Change:
        """Take it before looking, wait for it after: no change in between is missed."""
        return Change(self._changed)

    def back_off(self, why: str, *, now: float, first_s: float = _BACKOFF_FIRST_S) -> float:
        """No submit for a while, longer each time; the delay in seconds."""
        delay_s = backoff_s(self.failures, first_s=first_s, last_s=_BACKOFF_LAST_S)
        self.failures += 1
        self.retry_at = now + delay_s
        self.refused = why
        return delay_s

    def forgive(self) -> None:
        """Something has changed that may help: try again at once."""
        self.retry_at, self.failures, self.refused = 0.0, 0, ""

    def refuse_node(self, slurm_node: str, why: str, *, now: float) -> None:
        """Keep the next jobs of this gang away from a node for a while."""
        self.refusals[slurm_node] = (why, now + _REFUSAL_S)

    def eligibility(self, eligibility: Eligibility, *, now: float) -> Eligibility:
        """The nodes that fit, without those whose kubelet lately refused this gang."""
        self.refusals = {node: refusal for node, refusal in self.refusals.items() if refusal[1] > now}
        return without(eligibility, {node: why for node, (why, _) in self.refusals.items()})

    def view(self, gang: Gang | None, *, placed: dict[str, str], now: float) -> GangView:
        """The value that decisions read, but for the nodes that fit."""
        return GangView(
            id=self.id,
            gang=gang,
            jobs=tuple(self.jobs[id].view(now) for id in sorted(self.jobs)),
            bound_to=self.bound_to,
            placed=placed,
            displaced=dict(self.displaced),
            may_submit=now >= self.retry_at,
            refused=self.refused,
            idle_s=0.0 if self.idle_since is None else now - self.idle_since,
            is_half_bound=self.is_half_bound,
        )


def notes(to: Assumption) -> dict[str, str]:
    """The annotations that a pod gets with its binding."""
    if to.job is None:
        return {}
    optional = {names.ANNOTATION_PLACE: to.place, names.ANNOTATION_GPU_INDICES: to.gpus}
    told = {name: text for name, text in optional.items() if text}
    return {names.ANNOTATION_JOB_ID: str(to.job), names.ANNOTATION_PLACED_ON: to.slurm_node, **told}


def assume(pod: Pod, assumption: Assumption) -> Pod:
    """The pod as it will be when the watch shows the binding."""
    if pod.spec.node_name:
        return pod
    annotations = pod.annotations | notes(assumption)
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, annotations=annotations),
        spec=msgspec.structs.replace(pod.spec, node_name=assumption.node),
    )

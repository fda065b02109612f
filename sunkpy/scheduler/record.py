"""What the scheduler remembers of one gang: its jobs, its members, and what was said and refused.

Nothing here must survive the process: a new leader rebuilds it from the comments of jobs and the annotations of pods.
Times are of the monotonic clock, in seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.devices.asked import Claimed
from sunkpy.core.gang.gang import Gang, with_pods
from sunkpy.core.gang.identity import BindingNote, GangId
from sunkpy.core.gang.job.job import Job
from sunkpy.core.gang.phases import GangState
from sunkpy.core.gang.snapshot import Refusal, Snapshot
from sunkpy.core.model import states
from sunkpy.core.model.objects import Key, Pod, PodSpec
from sunkpy.core.model.states import JobId
from sunkpy.core.model.times import backoff_s
from sunkpy.core.placement.eligibility import Eligibility, without
from sunkpy.runtime.queue import Urgency
from sunkpy.runtime.verdicts import CachedVerdict
from sunkpy.scheduler.nodes.fullness import FullNodes

_BACKOFF_FIRST_S, _BACKOFF_LAST_S = 2.0, 300.0
_CHANGES_LAST_S = 3600.0
_MOST_ALIKE = 3
_ALIKE_AGAIN_S = 3600.0
"""After `_MOST_ALIKE` jobs in a row were given back for one reason, the next is submitted after so many seconds. Not
everything that refuses a pod can be watched: a policy, a gate of the kubelet, a driver.
"""
_NODE_AGAIN_LAST_S = 30.0
"""The longest pause before a pod is tried again on a node: each try lists the pods of the node, and no event tells that
one of them has left room.
"""


class SentBinding(msgspec.Struct, frozen=True, kw_only=True):
    """A binding that was sent; `confirmed` when the apiserver said yes. The watch may not show it yet: `pod` is as it
    will be then. Without a note when the pod never queues.
    """

    pod: Pod
    note: BindingNote | None
    confirmed: bool = False

    @classmethod
    def of(cls, pod: Pod, *, node: str, note: BindingNote | None = None) -> SentBinding:
        """The binding of a pod to a Kubernetes node. What its maker wrote in the place of a note does not stay."""
        forged = {name: "" for name in names.BINDING_NOTE if name in pod.annotations}
        annotations = pod.annotations | forged | (note.annotations if note is not None else {})
        meta = msgspec.structs.replace(pod.metadata, annotations=annotations)
        bound = msgspec.structs.replace(pod, metadata=meta, spec=msgspec.structs.replace(pod.spec, node_name=node))
        return cls(pod=bound, note=note)

    @property
    def job(self) -> JobId | None:
        """The job under which the pod is bound."""
        return self.note.job if self.note is not None else None


class Recognised(msgspec.Struct, frozen=True, kw_only=True):
    """A gang as one value, made of the `pods` that are there (`scheduler.pods.gangs`).

    Without `is_of_known_namespace` nobody knows yet what it may ask for.

    Args:
        gang: None when all its pods are gone.
        last_gang: what it was then, if all of them had ended.
        pods: as bound where a binding was sent.
        beyond: those of them that have no seat.
        claiming: as its family made it, if it can have claims for devices.
        claimed: what was known of these claims.
    """

    gang: Gang | None = None
    last_gang: Gang | None = None
    pods: tuple[Pod, ...] = ()
    beyond: tuple[Pod, ...] = ()
    is_of_known_namespace: bool = True
    claiming: Gang | None = None
    claimed: Claimed | None = None


class Halt(msgspec.Struct, frozen=True, kw_only=True):
    """A gang whose last jobs were all given back for one reason; each of them may have taken nodes from others. It gets
    no further job as long as it may use only the same nodes, nor before `again_at`.
    """

    usable: tuple[str, ...]
    again_at: float


class Grounds(msgspec.Struct, frozen=True, kw_only=True):
    """The facts on which it was last decided where a gang may go; empty as long as the gang looks for no nodes.

    Args:
        templates: where its pods might run.
        avoided: which nodes others kept it from.
        full: which nodes were full for it.
        reach: `Cluster.reach` then, if it has volumes; of these themselves each change wakes it.
        is_all: nothing else than nodes and neighbours decided with them.
    """

    templates: tuple[CachedVerdict[PodSpec, Eligibility], ...] = ()
    avoided: tuple[CachedVerdict[Sequence[Pod], Mapping[str, str]], ...] = ()
    full: tuple[FullNodes, ...] = ()
    reach: int | None = None
    is_all: bool = False


@dataclass(slots=True)
class MemberRecord:
    """One pod of a gang. `assumed`: the binding sent. `waits_since`: when it began to wait for admission,
    and `volume_since` for a volume. `refusal`:
    its node refused it, and nothing was given back. `reported`: why it waits, as reported last or to be reported at
    `reported_at`. `is_gone`: the apiserver said so.
    """

    key: Key
    assumed: SentBinding | None = None
    waits_since: float | None = None
    volume_since: float | None = None
    refusal: Refusal | None = None
    reported: str = ""
    reported_at: float = float("-inf")
    evicted_at: float = float("-inf")
    is_gone: bool = False


@dataclass(slots=True, eq=False)
class GangRecord:
    """One gang. `changes_helped`: how often a change of its pods or owner has let it be tried earlier since one of them
    had a node, `change_helps_at`: when the last of these did, or will.
    `uncertain_since`: a submit went out then and was not answered. `idle_since`: since then a job has
    held nodes and no member was there. `is_half_bound`: of pods that were to be bound together some were not.
    `suspended_for`: the job whose preemption the owner was suspended for. `recognised`: as it was worked out last;
    `is_doubted`: something that this was worked out from has changed since, and `is_news`: in a way that needs a pass.
    `ended`: pods of it that had ended when they went, by uid. `ends_counted`: the jobs of which a pass has seen the
    end. `given_back`: why the last job was given back, and how many in a row were for the same. `halt`: what follows
    when they are many. `usable`: the nodes that its templates allow, as seen last. `warned`: what the last pass has
    warned of, by pod, reason and text. `changes`: how many were told of.
    """

    id: GangId
    seen_at: float
    jobs: dict[JobId, Job] = field(default_factory=dict)
    members: dict[str, MemberRecord] = field(default_factory=dict)
    bound_to: JobId | None = None
    displaced: dict[str, JobId] = field(default_factory=dict)
    ends_counted: set[JobId] = field(default_factory=set)
    state: GangState | None = None
    retry_at: float = 0.0
    failures: int = 0
    refused: str = ""
    refusals: dict[str, tuple[str, float]] = field(default_factory=dict)
    changes_helped: int = 0
    change_helps_at: float = float("-inf")
    given_back: tuple[str, int] = ("", 0)
    halt: Halt | None = None
    usable: tuple[str, ...] = ()
    uncertain_since: float | None = None
    idle_since: float | None = None
    is_half_bound: bool = False
    is_several: bool = False
    suspended_for: JobId | None = None
    grounds: Grounds = field(default_factory=Grounds)
    recognised: Recognised = field(default_factory=Recognised)
    is_doubted: bool = True
    is_news: bool = False
    ended: dict[str, Pod] = field(default_factory=dict)
    warned: set[tuple[str, str, str]] = field(default_factory=set)
    changes: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def member(self, pod: Pod) -> MemberRecord:
        """What is remembered of a pod. A new record is made if there is none."""
        if pod.uid not in self.members:
            self.members[pod.uid] = MemberRecord(key=pod.key)
        return self.members[pod.uid]

    def assume(self, bindings: Sequence[SentBinding]) -> None:
        """Note that these bindings are sent. The members of the gang stay the same, and have their nodes now."""
        for each in bindings:
            self.member(each.pod).assumed = each
        gang = self.recognised.gang
        if gang is None or self.recognised.claiming is not None:
            self.is_doubted = True
            return
        self._put(gang, {each.pod.uid: each.pod for each in bindings})

    @property
    def is_all_bound(self) -> bool:
        """True if none of its pods waits for a node."""
        return all(pod.spec.node_name for pod in self.recognised.pods)

    def keep(self, pod: Pod) -> bool:
        """Put a changed pod in its own place, when nothing has changed that decides who is in the gang or what it asks
        for. False: the gang has to be recognised again.
        """
        known = self.recognised
        if self.is_doubted or known.gang is None or known.claiming is not None:
            return False
        self._put(known.gang, {pod.uid: self.as_bound(pod)})
        return True

    def _put(self, gang: Gang, changed: dict[str, Pod]) -> None:
        """Put these pods, by uid, in the place of what they were."""
        known = self.recognised
        self.recognised = msgspec.structs.replace(
            known,
            gang=with_pods(gang, {pod.uid: pod for pod in gang.members} | changed),
            pods=tuple(changed.get(pod.uid, pod) for pod in known.pods),
            beyond=tuple(changed.get(pod.uid, pod) for pod in known.beyond),
        )

    def assume_no_more(self, pod: Pod) -> None:
        """Forget a binding that did not happen."""
        self.member(pod).assumed, self.is_doubted = None, True

    @property
    def urgency(self) -> Urgency:
        """Whether nodes wait for the gang. First come gangs whose pods have to go, because others are to have the
        nodes. Then come gangs whose pods have to be bound; these may be thousands at once. A gang that only queues
        keeps no node waiting.
        """
        own = self.jobs.get(self.bound_to) if self.bound_to is not None else None
        if own is not None and (own.epilogs or states.is_job_ended(own.state)):
            return Urgency.FIRST
        is_soon = self.bound_to is not None or any(job.has_started for job in self.jobs.values())
        return Urgency.SOON if is_soon else Urgency.NONE

    @property
    def is_binding_open(self) -> bool:
        """A binding was sent, and the apiserver has not answered what happened to it."""
        return any(member.assumed is not None and not member.assumed.confirmed for member in self.members.values())

    def as_bound(self, pod: Pod) -> Pod:
        """A member with the binding that was sent, while the watch does not show it yet."""
        member = self.members.get(pod.uid)
        assumed = member.assumed if member is not None and not pod.spec.node_name else None
        return assumed.pod if assumed is not None else pod

    def wait_for_nothing(self) -> None:
        """Note that no member waits for its kubelet any more."""
        for member in self.members.values():
            member.waits_since = member.volume_since = None

    def forget_waits(self, *, but: Container[str], refused: Container[str]) -> None:
        """Note that no member waits for its kubelet or volume any more, except those with the uids `but`; and that of
        the others only those `refused` are to be tried again on the node that refused them.
        """
        for uid, member in self.members.items():
            if uid not in but:
                member.waits_since = member.volume_since = None
                member.refusal = member.refusal if uid in refused else None

    def note_refusal(self, pod: Pod, why: str, *, now: float, first_s: float) -> None:
        """Note that its node refused a member. It is tried there again, each time after a longer pause."""
        member = self.member(pod)
        since, times = (member.refusal.since, member.refusal.times) if member.refusal is not None else (now, 0)
        again_at = now + backoff_s(times, first_s=first_s, last_s=_NODE_AGAIN_LAST_S)
        member.refusal = Refusal(why=why, since=since, times=times + 1, again_at=again_at)

    def prune(self) -> None:
        """Forget members that the apiserver has said are gone; not the last, by which the gang's pods are known."""
        left = {uid: member for uid, member in self.members.items() if not member.is_gone}
        self.members = left or dict(list(self.members.items())[-1:])

    def now_under(self, job: JobId | None) -> None:
        """Note that the members run under this job: an earlier job that had their nodes no longer counts."""
        self.bound_to, self.failures, self.given_back = job, 0, ("", 0)
        self.changes_helped, self.change_helps_at = 0, float("-inf")
        self.displaced.clear()

    def fire(self) -> None:
        """Wake everything that waits for a change of this gang."""
        self.changes += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for_change(self, *, since: int, timeout_s: float) -> None:
        """Return when there have been more `changes` than `since`, or after `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.changes == since:
                    await self._changed.wait()

    def back_off(self, why: str, *, now: float, first_s: float = _BACKOFF_FIRST_S) -> float:
        """Submit nothing for a while, which is longer each time. Returns the pause in seconds."""
        delay_s = backoff_s(self.failures, first_s=first_s, last_s=_BACKOFF_LAST_S)
        self.failures += 1
        self.retry_at = now + delay_s
        self.refused = why
        return delay_s

    def give_back(self, why: str, *, kind: str, now: float) -> str:
        """Note that a node has refused a pod and that the job is given back. Returns in words when there will be
        another job.

        `kind`: the reason, without what is only of that node; empty when the next try may well do.
        """
        known, times = self.given_back
        times = times + 1 if kind and kind == known else 1
        self.given_back = (kind, times)
        delay_s = self.back_off(why, now=now)
        if times < _MOST_ALIKE:
            return _another(delay_s)
        self.halt, self.retry_at = Halt(usable=self.usable, again_at=self.retry_at), now + _ALIKE_AGAIN_S
        then = (
            f"as {times} in a row were given back for this, no other is submitted for an hour, unless the pods, their "
            "owner or the nodes that they may use change"
        )
        self.refused = f"{why}; {then}"
        return then

    def may_go_on(self, usable: tuple[str, ...], *, now: float) -> bool:
        """True if the gang may go on after its jobs were given back again and again: it may use other nodes now."""
        return self.halt is not None and now >= self.halt.again_at and usable != self.halt.usable

    def next_try_at(self, now: float) -> float:
        """When a job may be submitted, or when that may have changed with the nodes."""
        if self.halt is None or now >= self.halt.again_at:
            return self.retry_at
        return min(self.halt.again_at, self.retry_at)

    def was_submitted(self) -> None:
        """Note that Slurm has a job of the gang."""
        self.retry_at, self.refused, self.halt = 0.0, "", None

    def forgive(self) -> None:
        """Try again at once: something has changed that may help."""
        self.retry_at, self.failures, self.refused = 0.0, 0, ""
        self.given_back, self.halt = ("", 0), None

    def forgive_change(self, *, now: float) -> None:
        """Try again at once: the pods or their owner have changed, which may help. As long as no pod gets a node, the
        next such try comes later each time, because something may change all the time, and each try takes nodes from
        others.
        """
        if now >= self.retry_at and not self.failures:
            return
        if now >= self.change_helps_at:
            pause_s = backoff_s(self.changes_helped, first_s=_BACKOFF_FIRST_S, last_s=_CHANGES_LAST_S)
            self.change_helps_at = max(now, self.change_helps_at + pause_s)
            self.changes_helped += 1
        if self.change_helps_at <= now:
            self.forgive()
        elif self.change_helps_at < self.retry_at:
            self.retry_at = self.change_helps_at
            self.refused += f"; pods or owner change again and again: {_another(self.retry_at - now)}"

    def forget_refused_nodes(self, *, now: float) -> None:
        """Forget refused nodes whose kubelets may be asked again by now."""
        self.refusals = {node: refusal for node, refusal in self.refusals.items() if refusal[1] > now}

    def eligibility(self, eligibility: Eligibility) -> Eligibility:
        """The nodes that fit, without those whose kubelet lately refused this gang."""
        return without(eligibility, {node: why for node, (why, _) in self.refusals.items()})

    @property
    def has_live_job(self) -> bool:
        """True if one of its jobs waits or runs: then it gets no other job."""
        return any(job.is_live for job in self.jobs.values())

    def snapshot(self, seen: Recognised, *, placed: dict[str, str], now: float) -> Snapshot:
        """The value that decisions read, but for the nodes that fit."""
        return Snapshot(
            id=self.id,
            gang=seen.gang,
            last_gang=seen.last_gang,
            jobs=tuple(self.jobs[id] for id in sorted(self.jobs)),
            bound_to=self.bound_to,
            placed=placed,
            displaced=dict(self.displaced),
            may_submit=now >= self.retry_at,
            refused=self.refused,
            idle_s=0.0 if self.idle_since is None else now - self.idle_since,
            is_half_bound=self.is_half_bound,
            refusals={uid: known.refusal for uid, known in self.members.items() if known.refusal is not None},
            now=now,
        )


def _another(delay_s: float) -> str:
    return f"another is submitted in {delay_s:.0f} s"

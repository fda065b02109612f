"""The scheduler's record of one gang: its jobs, its members, and what was reported and refused.

Nothing here has to survive the process: a new leader rebuilds it from the comments of jobs and the annotations of pods.
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
"""Seconds until the next submit after `_MOST_ALIKE` jobs in a row were given back for one reason. The gang is tried
again because not all reasons can be watched: a policy, a feature gate of the kubelet, a driver.
"""
_NODE_AGAIN_LAST_S = 30.0
"""The longest pause before a pod is tried again on the node that refused it. Each try lists the pods of the node.
"""


class SentBinding(msgspec.Struct, frozen=True, kw_only=True):
    """A binding that was sent to the apiserver. `pod`: the pod as bound, which the watch may not show yet. `note`: None
    for a pod that never queues. `confirmed`: the apiserver has answered yes.
    """

    pod: Pod
    note: BindingNote | None
    confirmed: bool = False

    @classmethod
    def of(cls, pod: Pod, *, node: str, note: BindingNote | None = None) -> SentBinding:
        """Return the binding of a pod to a Kubernetes node. It empties annotations that a user wrote in place of a
        note.
        """
        forged = {name: "" for name in names.BINDING_NOTE if name in pod.annotations}
        annotations = pod.annotations | forged | (note.annotations if note is not None else {})
        meta = msgspec.structs.replace(pod.metadata, annotations=annotations)
        bound = msgspec.structs.replace(pod, metadata=meta, spec=msgspec.structs.replace(pod.spec, node_name=node))
        return cls(pod=bound, note=note)

    @property
    def job(self) -> JobId | None:
        """The Slurm job under which the pod is bound; None without a note."""
        return self.note.job if self.note is not None else None


class Recognised(msgspec.Struct, frozen=True, kw_only=True):
    """A gang as one value, made of its `pods` (`scheduler.pods.gangs`).

    Args:
        gang: the gang; None when all its pods are gone.
        last_gang: when all its pods are gone, the gang as last seen, with its ended pods.
        pods: its pods; one whose binding was sent counts as bound.
        beyond: the pods that have no seat.
        is_of_known_namespace: False while the namespace, and so what it may ask for, is unknown.
        claiming: the gang as its family made it, if it can have claims for devices.
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
    """The pause of a gang whose last jobs were all given back for one reason. It gets another job only after `again_at`
    and if it may then use other nodes than `usable`: each job may take nodes from other users.
    """

    usable: tuple[str, ...]
    again_at: float


class Grounds(msgspec.Struct, frozen=True, kw_only=True):
    """The facts behind the last decision on which nodes a gang may use; empty while the gang needs no nodes. If they
    still hold, the gang needs no new pass.

    Args:
        templates: the nodes where its pods may run.
        avoided: the nodes from which other pods kept it away.
        full: the nodes that were full for it.
        reach: the value of `Cluster.reach` at that time, if it has volumes.
        is_all: True if no other facts were used.
    """

    templates: tuple[CachedVerdict[PodSpec, Eligibility], ...] = ()
    avoided: tuple[CachedVerdict[Sequence[Pod], Mapping[str, str]], ...] = ()
    full: tuple[FullNodes, ...] = ()
    reach: int | None = None
    is_all: bool = False


@dataclass(slots=True)
class MemberRecord:
    """The record of one pod of a gang.

    Args:
        assumed: its binding that was sent, until the watch shows it.
        waits_since: since when it waits for its kubelet to admit it.
        volume_since: since when it waits for a volume.
        refusal: its node refused it, and its job keeps the node.
        reported: the last report of why it waits, written or to be written at `reported_at`.
        is_gone: True if the apiserver has said that it is gone.
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
    """The record of one gang.

    Args:
        bound_to: the job under which its pods were bound.
        displaced: Slurm node → the job to which Slurm gave the node after the gang's job was lost.
        ends_counted: the jobs whose end a pass has seen.
        retry_at, refused: before that time no job is submitted, and why.
        refusals: Slurm node → why its kubelet refused the gang, and until when that counts.
        changes_helped: how often a change of its pods or owner has allowed an earlier try since a pod last got a node.
        change_helps_at: when the last of these changes allowed it, or will.
        given_back: why the last job was given back, and how many in a row were for the same reason.
        halt: the pause after many of these.
        usable: the nodes that its pods' templates allow, as last seen.
        uncertain_since: when a submit was sent that got no answer.
        idle_since: since when a job has held nodes without a member.
        is_half_bound: True if some of the pods that were to be bound together were not.
        suspended_for: the job whose preemption led to the suspension of the owner.
        recognised: the gang as last recognised.
        is_doubted: True if something behind `recognised` has changed since.
        is_news: True if that change needs a pass.
        ended: by uid, its pods that had ended before they were deleted.
        warned: the warnings of the last pass, by pod, reason and text.
        changes: the number of changes so far.
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
        """Return the record of a pod; a new one if there is none."""
        if pod.uid not in self.members:
            self.members[pod.uid] = MemberRecord(key=pod.key)
        return self.members[pod.uid]

    def assume(self, bindings: Sequence[SentBinding]) -> None:
        """Note that these bindings are being sent: their pods count as bound from now on."""
        for each in bindings:
            self.member(each.pod).assumed = each
        gang = self.recognised.gang
        if gang is None or self.recognised.claiming is not None:
            self.is_doubted = True
            return
        self._put(gang, {each.pod.uid: each.pod for each in bindings})

    @property
    def is_all_bound(self) -> bool:
        """True if no pod of the gang waits for a node."""
        return all(pod.spec.node_name for pod in self.recognised.pods)

    def keep(self, pod: Pod) -> bool:
        """Replace a changed pod in `recognised`, after a change that alters neither the gang's members nor its
        requests. False if the gang has to be recognised again instead.
        """
        known = self.recognised
        if self.is_doubted or known.gang is None or known.claiming is not None:
            return False
        self._put(known.gang, {pod.uid: self.as_bound(pod)})
        return True

    def _put(self, gang: Gang, changed: dict[str, Pod]) -> None:
        """Replace these pods, by uid, in `recognised`."""
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
        """How urgent the gang is in the queues. First come gangs whose pods have to leave their nodes, then gangs whose
        pods have to be bound, which may be thousands at once. A gang that only queues keeps no node waiting.
        """
        own = self.jobs.get(self.bound_to) if self.bound_to is not None else None
        if own is not None and (own.epilogs or states.is_job_ended(own.state)):
            return Urgency.FIRST
        is_soon = self.bound_to is not None or any(job.has_started for job in self.jobs.values())
        return Urgency.SOON if is_soon else Urgency.NONE

    @property
    def is_binding_open(self) -> bool:
        """True if a binding was sent to which the apiserver has not answered yet."""
        return any(member.assumed is not None and not member.assumed.confirmed for member in self.members.values())

    def as_bound(self, pod: Pod) -> Pod:
        """Return a pod as bound, if its binding was sent and the watch does not show it yet; else as it is."""
        member = self.members.get(pod.uid)
        assumed = member.assumed if member is not None and not pod.spec.node_name else None
        return assumed.pod if assumed is not None else pod

    def wait_for_nothing(self) -> None:
        """Note that no member waits for its kubelet or a volume any more, except those with these uids."""
        for member in self.members.values():
            member.waits_since = member.volume_since = None

    def forget_waits(self, *, but: Container[str], refused: Container[str]) -> None:
        """Forget the refusals of members by their nodes, except for members with these uids."""
        for uid, member in self.members.items():
            if uid not in but:
                member.waits_since = member.volume_since = None
                member.refusal = member.refusal if uid in refused else None

    def note_refusal(self, pod: Pod, why: str, *, now: float, first_s: float) -> None:
        """Note that the node of a gang's pod refused the pod. It is tried there again, after a longer pause
        each time.
        """
        member = self.member(pod)
        since, times = (member.refusal.since, member.refusal.times) if member.refusal is not None else (now, 0)
        again_at = now + backoff_s(times, first_s=first_s, last_s=_NODE_AGAIN_LAST_S)
        member.refusal = Refusal(why=why, since=since, times=times + 1, again_at=again_at)

    def prune(self) -> None:
        """Forget members that are gone; but keep the last one, which shows that the gang's pods are known."""
        left = {uid: member for uid, member in self.members.items() if not member.is_gone}
        self.members = left or dict(list(self.members.items())[-1:])

    def now_under(self, job: JobId | None) -> None:
        """Note that the members run under this job, and forget what an earlier job, or its lack, has led to."""
        self.bound_to, self.failures, self.given_back = job, 0, ("", 0)
        self.changes_helped, self.change_helps_at = 0, float("-inf")
        self.displaced.clear()

    def fire(self) -> None:
        """Count a change of this gang, and wake everything that waits for one."""
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
        """Let the gang submit nothing for a while, each time for longer. Return the pause in seconds."""
        delay_s = backoff_s(self.failures, first_s=first_s, last_s=_BACKOFF_LAST_S)
        self.failures += 1
        self.retry_at = now + delay_s
        self.refused = why
        return delay_s

    def give_back(self, why: str, *, kind: str, now: float) -> str:
        """Note that a node has refused a pod and that the job is given back. Return in words when another job follows.

        `kind`: the reason without the node's name; empty if another node may well take the pod.
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
        """True if the gang's halt ends early, because it may use other nodes now than when its jobs were given back."""
        return self.halt is not None and now >= self.halt.again_at and usable != self.halt.usable

    def next_try_at(self, now: float) -> float:
        """Return when a job may be submitted, or when other nodes may allow one (see `may_go_on`)."""
        if self.halt is None or now >= self.halt.again_at:
            return self.retry_at
        return min(self.halt.again_at, self.retry_at)

    def was_submitted(self) -> None:
        """Note that Slurm has accepted a job of the gang, and forget earlier refusals."""
        self.retry_at, self.refused, self.halt = 0.0, "", None

    def forgive(self) -> None:
        """Let the gang try again at once, because something has changed that may help."""
        self.retry_at, self.failures, self.refused = 0.0, 0, ""
        self.given_back, self.halt = ("", 0), None

    def forgive_change(self, *, now: float) -> None:
        """Let the gang try again at once, because its pods or their owner have changed. As long as no pod gets a node,
        the next such try comes later each time: changes may never stop, and each try takes nodes from others.
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
        """Forget the nodes whose refusals have expired: their kubelets may be tried again."""
        self.refusals = {node: refusal for node, refusal in self.refusals.items() if refusal[1] > now}

    def eligibility(self, eligibility: Eligibility) -> Eligibility:
        """Return the eligible nodes without those whose kubelet lately refused this gang."""
        return without(eligibility, {node: why for node, (why, _) in self.refusals.items()})

    @property
    def has_live_job(self) -> bool:
        """True if a job of the gang waits or runs; then no other is submitted."""
        return any(job.is_live for job in self.jobs.values())

    def snapshot(self, seen: Recognised, *, placed: dict[str, str], now: float) -> Snapshot:
        """Return the snapshot that decisions read, without the eligible nodes."""
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

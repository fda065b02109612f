"""The scheduler's record of one gang (the pods that one Slurm job stands for): its jobs, its pods, and what was
reported and refused.

A record is kept only in memory. A new leader makes the records again from the comments of jobs and the annotations of
pods. Times are seconds of the monotonic clock.
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
from sunkpy.scheduler.nodes.candidates import FullNodes

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
    """The binding of a pod to a node, which is being sent or was sent to the apiserver.

    Args:
        pod: the pod as bound, although the watch may not show the binding yet.
        note: the annotations that are written with the binding and name the pod's gang and job; None for a pod that is
            bound without a job, such as a DaemonSet's.
        confirmed: True once it is known that the apiserver has done the binding.
    """

    pod: Pod
    note: BindingNote | None
    confirmed: bool = False

    @classmethod
    def of(cls, pod: Pod, *, node: str, note: BindingNote | None = None) -> SentBinding:
        """Return the binding of a pod to the Kubernetes node `node`. `note`: the annotations to write with it, which
        name the pod's gang and job. Annotations of this kind that a user has written on the pod are emptied.
        """
        forged = {name: "" for name in names.BINDING_NOTE if name in pod.annotations}
        annotations = pod.annotations | forged | (note.annotations if note is not None else {})
        meta = msgspec.structs.replace(pod.metadata, annotations=annotations)
        bound = msgspec.structs.replace(pod, metadata=meta, spec=msgspec.structs.replace(pod.spec, node_name=node))
        return cls(pod=bound, note=note)

    @property
    def job(self) -> JobId | None:
        """The Slurm job under which the pod is bound, as the annotations say that are written with the binding; None if
        the pod is bound without a job.
        """
        return self.note.job if self.note is not None else None


class Recognised(msgspec.Struct, frozen=True, kw_only=True):
    """A gang as one value, made from its pods, their owners and claims, and what their namespace may ask for.

    Args:
        gang: the gang; None when all its pods are gone.
        last_gang: only when all its pods are gone: the gang as last seen, with its pods that had ended.
        pods: all pods of the gang; a pod whose binding was sent counts as bound.
        beyond: those of the pods for which the gang has no seat, because it has more pods than its owner declares.
        is_of_known_namespace: False while the gang's namespace, which decides what the gang may ask for, is unknown.
        claiming: the gang before limits were applied to it, if its pods can have claims for devices; else None.
        claimed: what was known of the claims of `claiming` when this value was made.
    """

    gang: Gang | None = None
    last_gang: Gang | None = None
    pods: tuple[Pod, ...] = ()
    beyond: tuple[Pod, ...] = ()
    is_of_known_namespace: bool = True
    claiming: Gang | None = None
    claimed: Claimed | None = None


class Halt(msgspec.Struct, frozen=True, kw_only=True):
    """A long pause of a gang whose last jobs were all cancelled because nodes refused its pods for the same reason.
    Each further job might take nodes from other users in vain.

    The pause ends early if the gang may then use other Slurm nodes than `usable`, but not before `again_at`.
    """

    usable: tuple[str, ...]
    again_at: float


class Grounds(msgspec.Struct, frozen=True, kw_only=True):
    """The facts from which it was last worked out on which nodes a gang may run. They are empty while the gang needs no
    nodes. As long as all facts hold, a change of nodes or pods does not make a new decision about the gang necessary.

    Args:
        templates: for each kind of pod of the gang: the nodes on which such a pod may run.
        avoided: the nodes that the gang had to avoid because of other pods.
        full: the nodes that had too little left of resources that Slurm does not count.
        reach: the value of the counter `Cluster.reach` at that time, which grows when nodes or storage change; None if
            no pod of the gang has volumes.
        is_all: True if the nodes follow from these facts alone.
    """

    templates: tuple[CachedVerdict[PodSpec, Eligibility], ...] = ()
    avoided: tuple[CachedVerdict[Sequence[Pod], Mapping[str, str]], ...] = ()
    full: tuple[FullNodes, ...] = ()
    reach: int | None = None
    is_all: bool = False


@dataclass(slots=True)
class MemberRecord:
    """What the scheduler has noted about one pod of a gang. Times are seconds of the monotonic clock.

    Args:
        assumed: the binding that was sent for the pod, until the watch shows the pod as bound.
        waits_since: since when the pod has waited until its node would admit it; None if it does not wait for that.
        volume_since: since when the pod has waited for a volume that is being made; None if it does not wait for one.
        refusal: why the node refused the pod, if the pod is to be tried again there, on the node that its job keeps.
        reported: the last report of why the pod waits, which was written at `reported_at` or will be written then.
        evicted_at: when the pod was last evicted, or its owner was suspended, or its grace period was shortened.
        is_gone: True if the apiserver has said that the pod is gone.
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
    """What the scheduler has noted about one gang. Times are seconds of the monotonic clock.

    Args:
        seen_at: when the scheduler first saw the gang.
        jobs: the gang's Slurm jobs, by job ID.
        members: what was noted about each of the gang's pods, by pod uid.
        bound_to: the Slurm job under which the gang's pods were bound; None if no such job is known.
        displaced: Slurm node → the job to which Slurm gave the node after the gang's own job was lost.
        ends_counted: the jobs whose end has already been taken into account.
        state: the state of the gang at the last decision; None before the first one.
        retry_at, refused: no job is submitted before the time `retry_at`, and `refused` says why.
        failures: how many tries have failed in a row; each makes the next pause longer.
        refusals: Slurm node → why its kubelet refused a pod of the gang, and until when the next jobs avoid the node.
        changes_helped: how often a change of the gang's pods or owner has ended such a pause early, since a pod of the
            gang last got a node.
        change_helps_at: when the last of these changes ended the pause, or will end it.
        given_back: the reason for which the last job was cancelled because a node refused a pod, and how many jobs in a
            row were cancelled for this reason.
        halt: the long pause after several such jobs; None if there is none.
        usable: the Slurm nodes on which the gang's pods may run by their own specs, as last worked out.
        uncertain_since: since when it is unknown whether a submit that Slurm did not answer made a job; None if there
            is no such submit.
        idle_since: since when pods may start on all nodes of a job, and none of the gang has a node; None if there is
            no such job.
        is_half_bound: True if only some of the pods that were to be bound together were bound.
        is_several: True if the gang can have several pods, at once or one after another.
        suspended_for: the preempted job because of which the pods' owner was suspended.
        grounds: the facts from which it was last worked out on which nodes the gang may run.
        recognised: the gang as one value, as last made from its pods.
        is_doubted: True if something from which `recognised` was made has changed since.
        is_news: True if that change also makes a new decision about the gang necessary.
        ended: the gang's pods that had ended before they were deleted, by uid.
        warned: the warnings given at the last decision about the gang, each as pod uid, reason and text.
        changes: how many changes of the gang have been counted (`fire`).
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
        """Return the record of this pod of the gang. If the pod has no record yet, make one."""
        if pod.uid not in self.members:
            self.members[pod.uid] = MemberRecord(key=pod.key)
        return self.members[pod.uid]

    def assume(self, bindings: Sequence[SentBinding]) -> None:
        """Record that these bindings are being sent to the apiserver. From now on their pods count as bound, although
        the watch does not show it yet.
        """
        for each in bindings:
            self.member(each.pod).assumed = each
        gang = self.recognised.gang
        if gang is None or self.recognised.claiming is not None:
            self.is_doubted = True
            return
        self._put(gang, {each.pod.uid: each.pod for each in bindings})

    @property
    def is_all_bound(self) -> bool:
        """True if every pod of the gang has a node, or its binding to a node was sent."""
        return all(pod.spec.node_name for pod in self.recognised.pods)

    def keep(self, pod: Pod) -> bool:
        """Replace a changed pod in the stored value of the gang (`recognised`). This is for a change that alters
        neither which pods the gang has nor what they request.

        Return False if that is not possible, because the whole value has to be made again.
        """
        known = self.recognised
        if self.is_doubted or known.gang is None or known.claiming is not None:
            return False
        self._put(known.gang, {pod.uid: self.as_bound(pod)})
        return True

    def _put(self, gang: Gang, changed: dict[str, Pod]) -> None:
        """Replace pods in the stored value of the gang (`recognised`). `changed`: the new pods, by uid."""
        known = self.recognised
        self.recognised = msgspec.structs.replace(
            known,
            gang=with_pods(gang, {pod.uid: pod for pod in gang.members} | changed),
            pods=tuple(changed.get(pod.uid, pod) for pod in known.pods),
            beyond=tuple(changed.get(pod.uid, pod) for pod in known.beyond),
        )

    def assume_no_more(self, pod: Pod) -> None:
        """Forget that a binding of this pod was sent, because the binding did not happen. The pod counts as unbound
        again.
        """
        self.member(pod).assumed, self.is_doubted = None, True

    @property
    def urgency(self) -> Urgency:
        """How urgent the gang is in the queues. `FIRST`: its pods have to leave their nodes, because their job has
        ended there. `SOON`: its pods are bound, or its job has started and its pods have to be bound; thousands of
        gangs may be in this state at once. `NONE`: the gang only waits in the queue, and no node waits for it.
        """
        own = self.jobs.get(self.bound_to) if self.bound_to is not None else None
        if own is not None and (own.epilogs or states.is_job_ended(own.state)):
            return Urgency.FIRST
        is_soon = self.bound_to is not None or any(job.has_started for job in self.jobs.values())
        return Urgency.SOON if is_soon else Urgency.NONE

    @property
    def is_binding_open(self) -> bool:
        """True if a binding of one of the gang's pods was sent, and it is not known yet whether the apiserver has done
        it.
        """
        return any(member.assumed is not None and not member.assumed.confirmed for member in self.members.values())

    def as_bound(self, pod: Pod) -> Pod:
        """Return the pod as bound if its binding was sent to the apiserver and `pod` has no node yet; else return `pod`
        as it is.
        """
        member = self.members.get(pod.uid)
        assumed = member.assumed if member is not None and not pod.spec.node_name else None
        return assumed.pod if assumed is not None else pod

    def wait_for_nothing(self) -> None:
        """Record that no pod of the gang waits for its kubelet or for a volume any more."""
        for member in self.members.values():
            member.waits_since = member.volume_since = None

    def forget_waits(self, *, but: Container[str], refused: Container[str]) -> None:
        """For each pod of the gang whose uid is not in `but`: record that it waits neither for its kubelet nor for a
        volume any more, and forget that its node refused it. The refusals of pods with a uid in `refused` are kept.
        """
        for uid, member in self.members.items():
            if uid not in but:
                member.waits_since = member.volume_since = None
                member.refusal = member.refusal if uid in refused else None

    def note_refusal(self, pod: Pod, why: str, *, now: float, first_s: float) -> None:
        """Record that a node refused a pod of the gang, and why. The pod is to be tried again on the same node, after a
        pause of `first_s` seconds at first. The pause grows with each refusal.
        """
        member = self.member(pod)
        since, times = (member.refusal.since, member.refusal.times) if member.refusal is not None else (now, 0)
        again_at = now + backoff_s(times, first_s=first_s, last_s=_NODE_AGAIN_LAST_S)
        member.refusal = Refusal(why=why, since=since, times=times + 1, again_at=again_at)

    def prune(self) -> None:
        """Remove the pods that are gone from the gang's record. If all are gone, the last one stays in the record, as a
        sign that the gang's pods were known.
        """
        left = {uid: member for uid, member in self.members.items() if not member.is_gone}
        self.members = left or dict(list(self.members.items())[-1:])

    def now_under(self, job: JobId | None) -> None:
        """Record the job under which the gang's pods run from now on; None for pods that are bound without a job.
        Failed tries and lost nodes from the time before that are forgotten.
        """
        self.bound_to, self.failures, self.given_back = job, 0, ("", 0)
        self.changes_helped, self.change_helps_at = 0, float("-inf")
        self.displaced.clear()

    def fire(self) -> None:
        """Count a change of this gang, and wake everybody who waits in `wait_for_change`."""
        self.changes += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for_change(self, *, since: int, timeout_s: float) -> None:
        """Return as soon as the number of changes of this gang (`changes`) is no longer `since`, or after `timeout_s`
        seconds.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.changes == since:
                    await self._changed.wait()

    def back_off(self, why: str, *, now: float, first_s: float = _BACKOFF_FIRST_S) -> float:
        """Let no job be submitted for the gang for a while. The first pause has `first_s` seconds; each further pause
        in a row is longer. `why`: the reason in words. Return the length of this pause in seconds.
        """
        delay_s = backoff_s(self.failures, first_s=first_s, last_s=_BACKOFF_LAST_S)
        self.failures += 1
        self.retry_at = now + delay_s
        self.refused = why
        return delay_s

    def give_back(self, why: str, *, kind: str, now: float) -> str:
        """Record that the gang's job is cancelled, because a node has refused one of the gang's pods. Return in words
        when another job follows: after a pause that grows each time, and after several refusals of the same kind in a
        row after an hour, unless something changes before.

        `kind`: the reason without the node's name, to compare refusals; empty if another node may well accept the pod.
        """
        known, times = self.given_back
        times = times + 1 if kind and kind == known else 1
        self.given_back = (kind, times)
        delay_s = self.back_off(why, now=now)
        if times < _MOST_ALIKE:
            return _another(delay_s)
        self.halt, self.retry_at = Halt(usable=self.usable, again_at=self.retry_at), now + _ALIKE_AGAIN_S
        then = (
            f"{times} jobs in a row were given back for this reason: no other job is submitted for an hour, unless the "
            "pods, their owner or the nodes that they may use change"
        )
        self.refused = f"{why}; {then}"
        return then

    def may_go_on(self, usable: tuple[str, ...], *, now: float) -> bool:
        """True if the gang may get a job although it is in a long pause (`halt`): the Slurm nodes that it may use
        (`usable`) differ from those at the time when its jobs were cancelled because nodes refused its pods. False if
        there is no such pause, or before `halt.again_at`.
        """
        return self.halt is not None and now >= self.halt.again_at and usable != self.halt.usable

    def next_try_at(self, now: float) -> float:
        """Return the time from which a job may be submitted for the gang. In a long pause (`halt`) it is the earlier
        time from which a change of the usable nodes would allow a job (`may_go_on`).
        """
        if self.halt is None or now >= self.halt.again_at:
            return self.retry_at
        return min(self.halt.again_at, self.retry_at)

    def was_submitted(self) -> None:
        """Record that Slurm has accepted a job of the gang: no pause and no refusal of an earlier job counts
        any more.
        """
        self.retry_at, self.refused, self.halt = 0.0, "", None

    def forgive(self) -> None:
        """Let a job be submitted for the gang at once, and forget its failed tries, because something has changed that
        may help.
        """
        self.retry_at, self.failures, self.refused = 0.0, 0, ""
        self.given_back, self.halt = ("", 0), None

    def forgive_change(self, *, now: float) -> None:
        """Let a job be submitted for the gang at once, because its pods or their owner have changed.

        As long as no pod of the gang gets a node, each further change of this kind helps only after a longer pause.
        Changes may never stop, and each job may take nodes from others.
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
            self.refused += f"; the pods or their owner change again and again: {_another(self.retry_at - now)}"

    def forget_refused_nodes(self, *, now: float) -> None:
        """Forget the refusals by nodes that have expired by now: the gang's next job may use these nodes again."""
        self.refusals = {node: refusal for node, refusal in self.refusals.items() if refusal[1] > now}

    def eligibility(self, eligibility: Eligibility) -> Eligibility:
        """Return the eligible nodes without those where a kubelet has lately refused a pod of this gang. If no node
        would be left, all are returned.
        """
        return without(eligibility, {node: why for node, (why, _) in self.refusals.items()})

    @property
    def has_live_job(self) -> bool:
        """True if a job of the gang waits or runs in Slurm. As long as it does, no other job is submitted for
        the gang.
        """
        return any(job.is_live for job in self.jobs.values())

    def snapshot(self, seen: Recognised, *, placed: dict[str, str], now: float) -> Snapshot:
        """Return what this record knows of the gang, as a snapshot (the value from which decisions are made). The
        `Collector` adds what the cluster says: eligible and named nodes, ResourceClaims, other generations, pods
        without a seat. `seen`: the gang's value. `placed`: Slurm node of each pod that is on a node, by pod uid.
        `now`: monotonic seconds.
        """
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
    return f"another job is submitted in {delay_s:.0f} s"

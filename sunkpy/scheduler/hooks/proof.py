"""Checks what a Prolog or Epilog says, before its call has any effect: who calls, and which job it may speak for.

`NodeAuth` finds out who calls. It must be the root user of a slurmd pod, proved by the projected service-account token
of this pod. Anybody in the cluster can send requests. So the apiserver is asked to review a token only if the token
names the slurmd pod of the Slurm node in the request. Even such a token can be forged, so reviews are limited
(`ReviewLimits`), except for tokens that were accepted before. Each caller's address may cause a few reviews for each
pod. An address that has recently sent a refused token may cause only a few for all pods together. A call above a limit
is refused at once, and may be repeated.

`HookProof` asks Slurm about the job. Slurm must say that the job stands for a gang
(`sunkpy.core.gang.identity.gang_of`) and has the node that calls.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Hashable

import cachetools

from sunkpy.core.gang.identity import gang_of, is_anothers, parse_comment
from sunkpy.core.gang.job.job import Job
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.slurmd import is_slurmd, slurm_node_of
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.kube.tokens import BoundTo, read_unproved
from sunkpy.runtime.fresh_answer import FreshAnswers
from sunkpy.scheduler.hooks.messages import FORGOTTEN, NOT_OURS, Denied, HookAnswer, HookCall, NotThere
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.nodes.cluster import Cluster
from sunkpy.scheduler.record import GangRecord
from sunkpy.slurm.errors import NotFound

_POD_AT_ONCE, _POD_EACH_S = 5.0, 1.0
_SUSPECT_AT_ONCE, _SUSPECT_EACH_S, _SUSPECT_S = 20.0, 2.0, 60.0
_REMEMBERED = 20_000
_TOKEN_TTL_S = 60.0
_LONGEST_LIFE_S = 86400.0


class Buckets:
    """A token bucket (a rate limit) for each key. A full bucket allows `at_once` reviews at a time, and it gets
    `each_s` more reviews with each second. Only the keys that were used last are remembered.
    """

    def __init__(self, *, at_once: float, each_s: float, clock: Callable[[], float]) -> None:
        self._at_once = at_once
        self._each_s = each_s
        self._clock = clock
        self._left: cachetools.LRUCache[Hashable, tuple[float, float]] = cachetools.LRUCache(maxsize=_REMEMBERED)

    def take(self, key: Hashable) -> bool:
        """Take one review from the bucket of this key. Return False if the bucket was empty, so no review is
        allowed.
        """
        left = self._left_of(key)
        self._left[key] = (max(0.0, left - 1.0), self._clock())
        return left >= 1.0

    def give_back(self, key: Hashable) -> None:
        """Put one review back into the bucket of this key."""
        self._left[key] = (self._left_of(key) + 1.0, self._clock())

    def _left_of(self, key: Hashable) -> float:
        left, at = self._left.get(key, (self._at_once, 0.0))
        return min(self._at_once, left + (self._clock() - at) * self._each_s)


class ReviewLimits:
    """Limits how often the apiserver is asked to review tokens that were not accepted before. In the methods, `peer` is
    the network address of the caller.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._of_pods = Buckets(at_once=_POD_AT_ONCE, each_s=_POD_EACH_S, clock=clock)
        self._of_suspects = Buckets(at_once=_SUSPECT_AT_ONCE, each_s=_SUSPECT_EACH_S, clock=clock)
        self._suspects: cachetools.TTLCache[str, bool] = cachetools.TTLCache(_REMEMBERED, ttl=_SUSPECT_S, timer=clock)

    def may_ask(self, peer: str, uid: str) -> bool:
        """Return True if the apiserver may be asked now to review a token that names the pod with this uid and came
        from this address. This counts as one review.
        """
        if not self._of_pods.take((peer, uid)):
            return False
        return peer not in self._suspects or self._of_suspects.take(peer)

    def was_accepted(self, peer: str) -> None:
        """Give back the review of a token that the apiserver has accepted, so that it does not count against the limit
        of an address that has sent refused tokens.
        """
        if peer in self._suspects:
            self._of_suspects.give_back(peer)

    def was_refused(self, peer: str) -> None:
        """Record that the apiserver has refused a token from this address. For a while the address may cause fewer
        reviews.
        """
        self._suspects[peer] = True


class NodeAuth:
    """Checks whether a token belongs to the slurmd pod of the Slurm node for which its sender speaks. An accepted token
    is remembered for a minute. A refused token is not remembered, because the apiserver may not have seen the pod yet.
    """

    def __init__(self, leader: Leader, cluster: Cluster) -> None:
        clock = leader.clock
        self._kube = leader.kube
        self._audience = leader.settings.hooks.audience
        self._namespace = leader.settings.namespace
        self._cluster = cluster
        self._limits = ReviewLimits(clock=clock)
        self._known: cachetools.TTLCache[bytes, BoundTo] = cachetools.TTLCache(_REMEMBERED, _TOKEN_TTL_S, clock)
        self._accepted: cachetools.TTLCache[bytes, bool] = cachetools.TTLCache(_REMEMBERED, _LONGEST_LIFE_S, clock)
        self._under_way: dict[bytes, asyncio.Task[BoundTo]] = {}

    async def check(self, authorization: str, slurm_node: str, *, peer: str) -> Pod:
        """Check the `Authorization` header of a call that claims to come from this Slurm node, and return the slurmd
        pod that calls. `peer` is the network address of the caller.

        Raises:
            Denied: the token is missing, refused or another node's, or this address may not cause another review of a
                token now.
            KubeError: the apiserver could not be asked.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token or not token.isascii():
            raise Denied(401, "send the pod's projected token: Authorization: Bearer …")
        digest = hashlib.sha256(token.encode()).digest()
        bound = self._known.get(digest)
        if bound is None:
            says = read_unproved(token, audience=self._audience)
            if says is None:
                raise Denied(
                    401,
                    "the token is not accepted: it is not of a service account, has the wrong audience, or has expired",
                )
            self._slurmd(says, slurm_node)
            bound = await self._review(token, digest, peer=peer, says=says)
        return self._slurmd(bound, slurm_node)

    def _slurmd(self, bound: BoundTo, slurm_node: str) -> Pod:
        name = bound.name
        pod = self._cluster.slurmd_pods.get(self._namespace, name)
        if pod is None or pod.uid != bound.uid or not is_slurmd(pod):
            raise Denied(403, f"the token belongs to pod {name or '(none)'}, which is no slurmd pod of this cluster")
        own = slurm_node_of(pod)
        if own != slurm_node:
            raise Denied(403, f"pod {name} is Slurm node {own} and may not speak for {slurm_node}")
        return pod

    async def _review(self, token: str, digest: bytes, *, peer: str, says: BoundTo) -> BoundTo:
        """Have the apiserver review a token, and return the pod to which the token is bound. Callers that send the same
        token at the same time share one review. `says`: the pod that the token itself names.

        Raises:
            Denied: the token is refused, or this address may not cause a review now.
            KubeError: the apiserver could not be asked.
        """
        if digest not in self._under_way:
            if digest not in self._accepted and not self._limits.may_ask(peer, says.uid):
                raise Denied(429, "this address has sent too many tokens that were not accepted: ask again later")
            task = asyncio.create_task(self._ask(token, digest, peer))
            self._under_way[digest] = task
            task.add_done_callback(lambda _: self._under_way.pop(digest, None))
        return await asyncio.shield(self._under_way[digest])

    async def _ask(self, token: str, digest: bytes, peer: str) -> BoundTo:
        review = await self._kube.review_token(token, audience=self._audience)
        expected = f"system:serviceaccount:{self._namespace}:"
        if not review.authenticated:
            self._limits.was_refused(peer)
            raise Denied(
                401, f"the token is not accepted: {review.error or 'it has the wrong audience, or has expired'}"
            )
        if not review.user.username.startswith(expected):
            self._limits.was_refused(peer)
            raise Denied(403, f"{review.user.username} is not from namespace {self._namespace}")
        if digest not in self._accepted:
            self._accepted[digest] = True
            self._limits.was_accepted(peer)
        bound = BoundTo(name=review.user.bound_to("pod-name"), uid=review.user.bound_to("pod-uid"))
        self._known[digest] = bound
        return bound


class HookProof:
    """Checks with Slurm to which gang the job of a Prolog or Epilog belongs, and whether the job has the node that
    calls.
    """

    def __init__(self, leader: Leader) -> None:
        self._reads = FreshAnswers(leader.slurm.job, clock=leader.clock)
        self._user = leader.settings.slurm.user
        self._ledger = leader.ledger

    async def of(self, call: HookCall) -> tuple[GangRecord, Job] | HookAnswer:
        """Return the record of the gang and the job that a call of a Prolog or Epilog is about. If the job belongs to
        no gang, or Slurm does not know it or has given its ID to another job, return the answer to the call instead.

        Raises:
            NotThere: Slurm has not given the job to the node that calls.
            SlurmError: Slurm could not be asked.
        """
        meant = parse_comment(call.gang)
        record = self._ledger.by_job(call.job_id)
        known = record.jobs.get(call.job_id) if record is not None else None
        is_meant = record is not None and meant in (None, record.id)
        if record is not None and known is not None and is_meant and call.node in known.nodes:
            return record, known
        try:
            job, asked_at = await self._reads.get(call.job_id)
        except NotFound:
            return FORGOTTEN
        gang = gang_of(job, scheduler=self._user)
        if gang is None and meant in (None, parse_comment(job.comment)):
            return NOT_OURS  # even if its comment looks like a gang's
        if gang is None or meant not in (None, gang):
            return FORGOTTEN
        if call.node not in job.nodes:
            raise NotThere(f"Slurm has not given job {job.id} to {call.node}: the job is {_where(job)}")
        record = self._ledger.ensure(gang)
        self._ledger.take_job(record, job, asked_at=asked_at)
        return record, record.jobs[job.id]

    async def read_again(self, record: GangRecord, id: JobId) -> SlurmJob:
        """Read a job of the gang from Slurm again, record what Slurm says, and return it.

        Raises:
            NotFound: Slurm does not know the job, or has given its ID to another job.
            SlurmError: Slurm could not be asked.
        """
        found, asked_at = await self._reads.get(id)
        if is_anothers(found, record.id, scheduler=self._user):
            raise NotFound(f"read job {id} of {record.id}", text="its id is another job's")
        self._ledger.change_job(record, id, lambda job: job.read(found, at=max(asked_at, job.known_at)))
        return found


def _where(job: SlurmJob) -> str:
    return f"{'+'.join(sorted(job.state))} on {','.join(job.nodes)}" if job.nodes else "on no node"

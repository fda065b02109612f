"""Pods whose objects went while their containers ran, as far as anybody knew: deleted by force or without any grace.

A kubelet that hears of it gives the containers the grace period of the pod's spec and then frees what they held, and
tells nobody when it is done (`docs/design/hand-over.md`). So that long, and `teardown_s` more, the pod counts as being
on its node. If the pod was deleted before, the first grace period counts: the kubelet waits for the end
of that one, whatever shorter ones follow (1.35, kubelet.go, SyncTerminatingPod). One that a finalizer of somebody else
keeps after it was deleted by force has no grace period from the beginning, so that says nothing of the kubelet: it
counts for `teardown_s` after its containers have ended.

A kubelet that is away hears of nothing, and its containers run on. So the time begins again once the kubelet has
renewed its Lease. Where a node has no Lease, or none that may be read, the time alone counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Sequence
from math import inf
from typing import Final

import cachetools
import msgspec

from sunkpy.core.gang.identity import GangId, noted_job
from sunkpy.core.gang.phases import is_over
from sunkpy.core.gang.snapshot import grace_s
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId
from sunkpy.core.overview.installation import Lease
from sunkpy.kube import errors, paths
from sunkpy.scheduler.leader import Leader

_HEARTBEATS: Final = "kube-node-lease"
"""Namespace of the Leases of kubelets."""

_SLOWLY_S: Final = 30.0


class _Gone(msgspec.Struct, frozen=True, kw_only=True):
    """`until`: infinite while nothing says that its kubelet has lived since; `heartbeat`: as it was read first."""

    pod: Pod
    job: JobId | None
    wait_s: float
    until: float
    is_read: bool = False
    heartbeat: str | None = None

    def after(self, heartbeat: str | None, *, now: float) -> _Gone:
        """The state when the kubelet's Lease says this now; None: it has no Lease."""
        if not self.is_read:
            until = self.until if heartbeat is None else inf
            return msgspec.structs.replace(self, is_read=True, heartbeat=heartbeat, until=until)
        is_heard = self.until == inf and heartbeat != self.heartbeat
        return msgspec.structs.replace(self, until=now + self.wait_s) if is_heard else self


class Vanished:
    """Remembers pods that were deleted by force, by Kubernetes node. It is a handler of the informer of pods, and must
    hear of a pod before its gang is forgotten: `find_id` gives its gang.
    """

    def __init__(self, leader: Leader, *, find_id: Callable[[Pod], GangId | None]) -> None:
        self._leader = leader
        self._times = leader.settings.times
        self._find_id = find_id
        self._gone: cachetools.TLRUCache[str, tuple[_Gone, ...]] = cachetools.TLRUCache(
            maxsize=sys.maxsize, ttu=lambda _, there, __: max(gone.until for gone in there), timer=leader.clock
        )
        self._first_given: dict[str, float] = {}
        self._asked: set[str] = set()
        self._question = asyncio.Event()

    def update(self, old: Pod | None, new: Pod | None) -> None:
        """Note a pod that has gone too early."""
        if old is not None and new is not None and old.uid != new.uid:
            self.update(old, None)
            old = None
        first_given_s = self._follow(old, new)
        if old is None or not old.spec.node_name or is_over(old):
            return
        if new is None:
            self._note(old, wait_s=(first_given_s or grace_s(old)) + self._times.teardown_s)
        elif old.metadata.deletion_grace_period_seconds == 0 and is_over(new):
            self._note(old, wait_s=self._times.teardown_s)

    def _follow(self, old: Pod | None, new: Pod | None) -> float | None:
        """The grace period of the first deletion. For a pod that was deleted before it was seen, nobody
        knows it.
        """
        if new is None:
            return self._first_given.pop(old.uid, None) if old is not None else None
        given_s = new.metadata.deletion_grace_period_seconds
        if given_s is not None and new.uid not in self._first_given:
            self._first_given[new.uid] = given_s if old is not None else max(given_s, grace_s(new))
        return self._first_given.get(new.uid)

    def _note(self, pod: Pod, *, wait_s: float) -> None:
        node, until = pod.spec.node_name, self._leader.clock() + wait_s
        self._gone[node] = (*self._on(node), _Gone(pod=pod, job=self._job_of(pod), wait_s=wait_s, until=until))
        self._ask(node)

    async def run(self) -> None:
        """Follow the kubelets of nodes that are asked about, and slowly all that are silent, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._question.wait(), _SLOWLY_S)
            nodes = self._asked or {node for node in [*self._gone] if any(gone.until == inf for gone in self._on(node))}
            self._asked = set()
            self._question.clear()
            for node in nodes:
                await self._follow_kubelet(node)
            await asyncio.sleep(self._times.gate_again_s)

    async def _follow_kubelet(self, node: str) -> None:
        heartbeat = None
        try:
            heartbeat = (await self._leader.kube.get(paths.lease(_HEARTBEATS, node), Lease)).spec.renew_time
        except errors.KubeError as error:
            if not isinstance(error, errors.NotFound | errors.Forbidden):
                self._ask(node)
                return
        if there := self._on(node):
            now = self._leader.clock()
            self._gone[node] = tuple(gone.after(heartbeat, now=now) for gone in there)

    def _ask(self, node: str) -> None:
        self._asked.add(node)
        self._question.set()

    def _job_of(self, pod: Pod) -> JobId | None:
        """Under which job it was: its owner may have taken the note off it."""
        record = self._leader.ledger.get(self._find_id(pod))
        return (record.bound_to if record is not None else None) or noted_job(pod)

    def keeps(self, node: str, job: JobId | None = None) -> str | None:
        """What a node still waits for, for one job or for any; None if for nothing."""
        for gone in self._on(node):
            if job is None or gone.job == job:
                if gone.until == inf:
                    self._ask(node)
                    return f"pod {'/'.join(gone.pod.key)} was deleted by force, and its kubelet has not reported since"
                wait_s = gone.until - self._leader.clock()
                return f"pod {'/'.join(gone.pod.key)} was deleted by force: its containers have {wait_s:.0f} s to end"
        return None

    def left_s(self, node: str) -> float:
        """Seconds until less is waited for there, or may be; infinite when nothing is."""
        again_s, now = self._times.gate_again_s, self._leader.clock()
        return min((again_s if gone.until == inf else gone.until - now for gone in self._on(node)), default=inf)

    def _on(self, node: str) -> Sequence[_Gone]:
        return [gone for gone in self._gone.get(node, ()) if gone.until > self._leader.clock()]

"""Remembers pods that were deleted by force (removed from the apiserver at once) while their containers may still run.

A kubelet that notices such a deletion gives the containers the grace period of the pod's spec, frees what they held,
and reports nothing when that is done (`docs/design/hand-over.md`). So the pod counts as being on its node for this
grace period and for `teardown_s` more. If the pod was already being deleted, the grace period of its first deletion
counts: the kubelet waits for the end of that one, even if shorter ones follow (1.35, kubelet.go, SyncTerminatingPod).
If another program's finalizer keeps the pod after a deletion with grace period 0, the pod's status shows when its
containers have ended, and the pod counts for `teardown_s` after that.

A kubelet that is away does not notice the deletion, and the containers go on. So the time begins again once the kubelet
has renewed its Lease. If the node has no Lease, or none that the scheduler may read, only the time counts.
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
    """A pod that was deleted by force, and whose containers may still run. Times are seconds of the monotonic clock.

    Args:
        job: the job under which the pod ran; None if that is unknown.
        wait_s: the time that its kubelet needs to remove the containers once it knows of the deletion.
        until: when the containers are surely gone; infinite until the kubelet has renewed its Lease after the deletion.
        is_read: True once the Lease of the kubelet has been read.
        heartbeat: when the Lease was renewed, as first read after the deletion; None without a Lease.
    """

    pod: Pod
    job: JobId | None
    wait_s: float
    until: float
    is_read: bool = False
    heartbeat: str | None = None

    def after(self, heartbeat: str | None, *, now: float) -> _Gone:
        """Return this pod's new state after the Lease of its kubelet was read. `heartbeat`: when the Lease was renewed;
        None if there is no Lease that can be read. `now`: seconds of the monotonic clock.
        """
        if not self.is_read:
            until = self.until if heartbeat is None else inf
            return msgspec.structs.replace(self, is_read=True, heartbeat=heartbeat, until=until)
        is_heard = self.until == inf and heartbeat != self.heartbeat
        return msgspec.structs.replace(self, until=now + self.wait_s) if is_heard else self


class Vanished:
    """Remembers, for each Kubernetes node, the pods there that were deleted by force. `find_id` returns the gang of a
    pod. So `update` must be called with a change of a pod before the pod's gang is forgotten.
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
        """Take one change of a pod in the watch into account, and remember the pod if it was deleted by force while it
        ran. `old` is None if the pod is new, `new` if it is gone.
        """
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
        """Return the grace period, in seconds, with which the pod was first deleted; None if it is not being deleted.

        If the pod was already being deleted when it was first seen, that grace period is unknown. Then the longer of
        two counts: that of the deletion as seen, or that of the pod's spec.
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
        """Read the Leases of kubelets whose nodes have pods that were deleted by force, until cancelled: soon if a
        Prolog or Epilog has asked about the node, and otherwise from time to time.
        """
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
        """Return the job under which the pod ran; None if it is unknown. The record of the pod's gang is asked first,
        and the pod's own annotations only after that, because a user may have removed them.
        """
        record = self._leader.ledger.get(self._find_id(pod))
        return (record.bound_to if record is not None else None) or noted_job(pod)

    def keeps(self, node: str, job: JobId | None = None) -> str | None:
        """Return in words which pod may still run on a Kubernetes node although it was deleted by force; None if there
        is none. With `job`, only pods of this job count.
        """
        for gone in self._on(node):
            if job is None or gone.job == job:
                if gone.until == inf:
                    self._ask(node)
                    return f"pod {'/'.join(gone.pod.key)} was deleted by force, and its kubelet has not reported since"
                wait_s = gone.until - self._leader.clock()
                return f"pod {'/'.join(gone.pod.key)} was deleted by force: its containers have {wait_s:.0f} s to end"
        return None

    def left_s(self, node: str) -> float:
        """Return after how many seconds to look again whether a pod that was deleted by force has left the node;
        infinite if there is no such pod on the node.
        """
        again_s, now = self._times.gate_again_s, self._leader.clock()
        return min((again_s if gone.until == inf else gone.until - now for gone in self._on(node)), default=inf)

    def _on(self, node: str) -> Sequence[_Gone]:
        return [gone for gone in self._gone.get(node, ()) if gone.until > self._leader.clock()]

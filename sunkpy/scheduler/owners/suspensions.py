"""Suspends the owners of gangs that Slurm has preempted, and resumes an owner when its pods are gone. The owner then
makes new pods, which wait in the queue again.

That an owner is suspended by the scheduler is recorded only in an annotation of the owner: see
`sunkpy.core.gang.suspending`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import structlog

from sunkpy.core.gang.gang import Link, Suspension
from sunkpy.core.gang.suspending import is_suspended, path_noted, release, suspend
from sunkpy.core.model.objects import Key, Kind, Owner
from sunkpy.kube import errors
from sunkpy.runtime.queue import WorkQueue, run_workers
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.owners.watch import OwnerWatches


class Suspensions:
    """Suspends owners of pods and resumes them; each leader has its own object.

    Args:
        kinds: the kinds of owners that an earlier leader may have suspended.
        has_pods: returns whether an owner has pods that have not ended.
    """

    def __init__(
        self, leader: Leader, watches: OwnerWatches, *, kinds: Iterable[Kind], has_pods: Callable[[Owner], bool]
    ) -> None:
        self._leader = leader
        self._kube = leader.kube
        self._scheduler = leader.settings.scheduler_name
        self._watches = watches
        self._kinds = kinds
        self._has_pods = has_pods
        self._queue: WorkQueue[Link] = WorkQueue("suspensions")
        self._log = structlog.get_logger("suspensions")
        watches.add_listener(self._owner_changed)

    async def run(self) -> None:
        """Resume the owners that the scheduler has suspended, once their pods are gone, until cancelled."""
        for kind in self._kinds:
            self._watches.follow(kind)
        await run_workers(self._queue, self._reconcile, workers=1, metrics=self._leader.queues)

    async def suspend(self, suspension: Suspension) -> bool:
        """Suspend an owner, which then deletes its pods. Return True if it is suspended by the scheduler, now or
        already. Return False if that failed, or if somebody else has suspended it.
        """
        owner = suspension.owner
        if self._watches.shown(Link(kind=owner.is_a, namespace=owner.key[0], name=owner.name, uid=owner.uid)) is None:
            return False
        path = self._watches.path(owner)
        try:
            now = await self._kube.get(path, Owner)
            if now.uid != owner.uid or is_suspended(now, suspension.path):
                return now.uid == owner.uid and bool(path_noted(now, self._scheduler))
            await self._kube.patch(path, suspend(msgspec.structs.replace(suspension, owner=now), self._scheduler))
        except (errors.KubeError, RecursionError) as error:
            # RecursionError: the owner is nested too deep to find the field. Its pods are evicted instead.
            self._log.warning("owner not suspended", owner="/".join(owner.key), kind=owner.kind, error=str(error))
            return False
        self._log.info("suspended", owner="/".join(owner.key), kind=owner.kind)
        return True

    async def _reconcile(self, link: Link) -> float | None:
        """Resume an owner that the scheduler has suspended, if its pods are gone. Return after how many seconds to look
        again; None if nothing is left to do.

        Raises:
            KubeError: the owner was not resumed; try again later.
        """
        seen = self._watches.shown(link)
        if seen is None or not path_noted(seen, self._scheduler):
            return None
        path = self._watches.path(seen)
        try:
            owner = await self._kube.get(path, Owner)
            patch = release(owner, self._scheduler, has_pods=self._has_pods(seen))
            if patch is None:
                return self._leader.settings.times.resume_again_s
            await self._kube.patch(path, patch)
        except (errors.NotFound, errors.Conflict):
            return self._leader.settings.times.resume_again_s
        self._log.info("resumed", owner="/".join(owner.key), kind=seen.kind)
        return None

    def _owner_changed(self, kind: Kind, key: Key | None) -> None:
        if key is not None:
            link = Link(kind=kind, namespace=key[0], name=key[1])
            owner = self._watches.shown(link)
            if owner is not None and path_noted(owner, self._scheduler):
                self._queue.add(link)

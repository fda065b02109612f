"""Phases of pod groups that are another scheduler's business, where that scheduler is not there.

Some operators make no pod before the phase of their group has left Pending, and wait for the scheduler they know to say
so. Where the pods will name us, we say it: what to say, and whether it is for us to say, is a pure rule of the family.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection

import msgspec
import structlog

from sunkpy.core.gang.owners import Absence, Link, controller_of
from sunkpy.core.model.objects import Key, Kind, OddOwner, Owner, Pod
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Together
from sunkpy.runtime.queue import QueueMetrics, WorkQueue, run_workers
from sunkpy.scheduler.owner_watch import OwnerWatches

_LOOK_AGAIN_S = 1.0


class PhaseRule(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of one kind.

    Args:
        annotation: by which a pod names its group.
        names_scheduler: whether the pods that the owner of a group makes will name one of these schedulers.
        phase_wanted: the phase that a group should get when so many of its pods are bound; None: as it is.
    """

    kind: Kind
    annotation: str
    names_scheduler: Callable[[Owner, Collection[str]], bool]
    phase_wanted: Callable[[Owner, int], str | None]


class PodGroups:
    """Keeps the phases of groups whose pods are or will be ours."""

    def __init__(
        self, kube: Kube, rule: PhaseRule, *, watches: OwnerWatches, pods: Together[Pod], schedulers: Collection[str]
    ) -> None:
        self._kube = kube
        self._rule = rule
        self._watches = watches
        self._schedulers = schedulers
        self._queue: WorkQueue[Key] = WorkQueue("pod-groups")
        self._bound: dict[Key, set[str]] = {}
        self._log = structlog.get_logger("pod-groups")
        watches.add_listener(self._group_changed)
        pods.add_handler(self._pod_changed)

    async def run(self, metrics: QueueMetrics | None = None) -> None:
        """Work until cancelled."""
        self._watches.follow(self._rule.kind)
        await run_workers(self._queue, self._reconcile, workers=2, metrics=metrics)

    async def _reconcile(self, key: Key) -> float | None:
        """Give the group the phase that it should have.

        Raises:
            KubeError: not done; decide again later.
        """
        group = self._watches.seen(Link(kind=self._rule.kind, namespace=key[0], name=key[1]))
        if (
            group is None
            or isinstance(group, OddOwner)
            or group.is_deleting
            or (reference := controller_of(group)) is None
        ):
            return None
        owner = self._watches.look(Link.to(reference, key[0]))
        if owner is Absence.UNKNOWN:
            return _LOOK_AGAIN_S
        if not isinstance(owner, Owner) or isinstance(owner, OddOwner):
            return None
        if not self._rule.names_scheduler(owner, self._schedulers):
            return None
        phase = self._rule.phase_wanted(group, len(self._bound.get(key, ())))
        if phase is not None:
            await self._give(group, phase)
        return None

    async def _give(self, group: Owner, phase: str) -> None:
        """As a status by itself, or, where a CRD has no such subresource (Volcano's), as a part of the object."""
        guard = {"uid": group.uid, "resourceVersion": group.metadata.resource_version}
        body = {"metadata": guard, "status": {"phase": phase}}
        path = self._watches.path(group)
        for place in (paths.status(path), path):
            with contextlib.suppress(errors.NotFound):
                await self._kube.patch(place, body)
                self._log.info("phase", group="/".join(group.key), phase=phase)
                return

    def _group_changed(self, kind: Kind, key: Key | None) -> None:
        if kind == self._rule.kind and key is not None:
            self._queue.add(key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod, is_there in ((old, False), (new, True)):
            name = pod.annotations.get(self._rule.annotation, "") if pod is not None else ""
            if pod is None or not name:
                continue
            key = (pod.metadata.namespace, name)
            bound = self._bound.setdefault(key, set())
            bound.discard(pod.uid)
            if is_there and pod.spec.node_name and not pod.is_finished:
                bound.add(pod.uid)
            if not bound:
                del self._bound[key]
            self._queue.add(key)

"""Writes the phases of Volcano's PodGroups, as Volcano's scheduler would, if that scheduler is not installed.

Some operators make no pod before the phase of their group has left Pending. They wait until Volcano's scheduler writes
the phase. If the pods will name our scheduler, we write it. A pure rule of the family (`core.gang.families.volcano`)
says which phase, and for which groups.
"""

from __future__ import annotations

import contextlib

import structlog

from sunkpy.core.gang.families import volcano
from sunkpy.core.gang.gang import Link
from sunkpy.core.gang.owners import Absence, controller_of
from sunkpy.core.model.objects import Key, Kind, OddOwner, Owner, Pod
from sunkpy.kube import errors, paths
from sunkpy.kube.informer import Together
from sunkpy.runtime.groups import Watched
from sunkpy.runtime.queue import WorkQueue, run_workers
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.owners.watch import OwnerWatches

_LOOK_AGAIN_S = 1.0


class PodGroups:
    """Writes the phases of Volcano's PodGroups whose pods name this scheduler, or will."""

    def __init__(self, leader: Leader, watches: OwnerWatches, pods: Together[Pod]) -> None:
        self._leader = leader
        self._watches = watches
        self._queue: WorkQueue[Key] = WorkQueue("pod-groups")
        self._bound: Watched[Key, Pod] = Watched(_groups_with)
        self._log = structlog.get_logger("pod-groups")
        watches.add_listener(self._group_changed)
        pods.add_handler(self._pod_changed)

    async def run(self) -> None:
        """Write phases until cancelled."""
        self._watches.follow(volcano.POD_GROUP)
        await run_workers(self._queue, self._reconcile, workers=2, metrics=self._leader.queues)

    async def _reconcile(self, key: Key) -> float | None:
        """Write the phase that the group should have.

        Raises:
            KubeError: the phase was not written; decide again later.
        """
        group = await self._watches.read(Link(kind=volcano.POD_GROUP, namespace=key[0], name=key[1]))
        if (
            group is None
            or isinstance(group, OddOwner)
            or group.is_deleting
            or (reference := controller_of(group)) is None
        ):
            return None
        link = Link.to(reference, key[0])
        owner = await self._watches.read(link) or self._watches.look(link)
        if owner is Absence.UNKNOWN:
            return _LOOK_AGAIN_S
        if not isinstance(owner, Owner) or isinstance(owner, OddOwner):
            return None
        if not volcano.names_scheduler(owner, self._leader.settings.scheduler_names):
            return None
        phase = volcano.phase_wanted(group, bound=len(self._bound.of(key)))
        if phase is not None:
            await self._write(group, phase)
        return None

    async def _write(self, group: Owner, phase: str) -> None:
        """Write the phase to the status subresource, or to the object if the CRD has none (Volcano's has none)."""
        guard = {"uid": group.uid, "resourceVersion": group.metadata.resource_version}
        body = {"metadata": guard, "status": {"phase": phase}}
        path = self._watches.path(group)
        for place in (paths.status(path), path):
            with contextlib.suppress(errors.NotFound, errors.NotServed):
                await self._leader.kube.patch(place, body)
                self._log.info("phase", group="/".join(group.key), phase=phase)
                return

    def _group_changed(self, kind: Kind, key: Key | None) -> None:
        if kind == volcano.POD_GROUP and key is not None:
            self._queue.add(key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._bound.follow(old, new)
        for pod in (old, new):
            for key in _groups_of(pod) if pod is not None else ():
                self._queue.add(key)


def _groups_of(pod: Pod) -> tuple[Key, ...]:
    name = pod.annotations.get(volcano.GROUP_NAME, "")
    return ((pod.metadata.namespace, name),) if name else ()


def _groups_with(pod: Pod) -> tuple[Key, ...]:
    """Return the keys of the pod's groups, if the pod is on a node and has not ended."""
    return _groups_of(pod) if pod.spec.node_name and not pod.is_finished else ()

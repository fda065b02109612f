"""Writes the phases of Volcano's PodGroups, as Volcano's own scheduler would do, in clusters without that scheduler.

Some operators create no pods until the phase of their PodGroup has left Pending, and wait for Volcano's scheduler to
write the phase. sunkpy's scheduler writes it if the pods will name sunkpy's scheduler. Which phase is written, and for
which groups, is decided by a pure function of the code for this kind of workload (`core.gang.families.volcano`).
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
    """Writes the phases of those PodGroups of Volcano whose pods name this scheduler, or will name it once they
    exist.
    """

    def __init__(self, leader: Leader, watches: OwnerWatches, pods: Together[Pod]) -> None:
        self._leader = leader
        self._watches = watches
        self._queue: WorkQueue[Key] = WorkQueue("pod-groups")
        self._bound: Watched[Key, Pod] = Watched(_groups_with)
        self._log = structlog.get_logger("pod-groups")
        watches.add_listener(self._group_changed)
        pods.add_handler(self._pod_changed, of=lambda pod: volcano.GROUP_NAME in pod.annotations)

    async def run(self) -> None:
        """Write the phases of PodGroups until cancelled."""
        self._watches.follow(volcano.POD_GROUP)
        await run_workers(self._queue, self._reconcile, workers=2, metrics=self._leader.queues)

    async def _reconcile(self, key: Key) -> float | None:
        """Write the phase that this PodGroup should have, if it has another phase. Return after how many seconds to try
        again, if its owner is not known yet; else None.

        Raises:
            KubeError: the phase was not written; try again later.
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
        owner = await self._watches.read(link) or self._watches.look_up(link)
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
        """Write the phase of a PodGroup to its status subresource, or into the object itself if the CRD has no status
        subresource (Volcano's CRD has none).
        """
        guard = {"uid": group.uid, "resourceVersion": group.metadata.resource_version}
        body = {"metadata": guard, "status": {"phase": phase}}
        path = self._watches.path(group)
        for place in (paths.status(path), path):
            with contextlib.suppress(errors.NotFound, errors.NotServed):
                await self._leader.kube.patch(place, body)
                self._log.info("phase of a PodGroup written", group="/".join(group.key), phase=phase)
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
    """Return the key of the PodGroup that the pod names, as a tuple with one item. The tuple is empty if the pod names
    none, is on no node, or has ended.
    """
    return _groups_of(pod) if pod.spec.node_name and not pod.is_finished else ()

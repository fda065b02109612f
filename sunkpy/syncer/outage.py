"""That Slurm cannot be read, or is not believed, said once for the cluster and not on each of thousands of pods.

The pods keep what they were last told, so its age is one number: that of the last answer that was believed. It is told
by Events on the NodeSets, at the beginning, every half hour, and at the end; and by the metrics
`sunkpy_slurm_cache_age_seconds`, `sunkpy_syncer_slurm_readable` and `sunkpy_syncer_slurm_believed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from sunkpy.core import names
from sunkpy.core.model.objects import KubeObject, Meta, Pod
from sunkpy.core.model.slurmd import nodeset_owner
from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.syncer.metrics import SyncerMetrics

_AGAIN_AFTER = timedelta(minutes=30)
_UNREADABLE = "Slurm cannot be read: nothing is changed until slurmrestd and slurmctld answer (see the syncer's log)"
_STRANGE = "Slurm does not list its registered nodes any more: did slurmctld lose its state? Nothing is changed"


class Outage:
    """Looks each second; remembers since when things are not as they should be."""

    def __init__(
        self,
        *,
        pods: Informer[Pod],
        events: EventRecorder,
        metrics: SyncerMetrics,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._pods = pods
        self._events = events
        self._metrics = metrics
        self._now = now
        self._well_at: datetime | None = None
        self._begun_at = now()
        self._told_at: datetime | None = None

    async def look(self, *, is_read: bool, is_trusted: bool) -> None:
        """Tell what has begun, what still lasts after a while, and what is over."""
        now = self._now()
        self._metrics.readable.set(1 if is_read else 0)
        if is_read and is_trusted:
            self._well_at = now
            if self._told_at is not None:
                self._told_at = None
                await self._tell("SlurmReadable", "Slurm is read and believed again", is_good=True)
        elif self._told_at is None or now - self._told_at >= _AGAIN_AFTER:
            self._told_at = now
            what = _UNREADABLE if not is_read else _STRANGE
            reason = "SlurmUnreadable" if not is_read else "SlurmNotBelieved"
            await self._tell(reason, f"{what}. {self._as_of()}", is_good=False)

    def _as_of(self) -> str:
        """A new leader has not read what it finds on the pods."""
        if self._well_at is None:
            return f"What pods and Nodes say of Slurm is from before {rfc3339(self._begun_at)}"
        return f"What pods and Nodes say of Slurm is as of {rfc3339(self._well_at)}"

    async def _tell(self, reason: str, note: str, *, is_good: bool) -> None:
        say = self._events.normal if is_good else self._events.warning
        for nodeset in self._nodesets():
            await say(nodeset, "NodeSet", reason=reason, action="ReadSlurm", note=note)

    def _nodesets(self) -> Iterator[KubeObject]:
        """Those that have pods here, as their pods name them: the syncer reads no NodeSets."""
        one_of_each = {pod.labels.get(names.LABEL_NODESET): pod for pod in self._pods.values()}
        for pod in one_of_each.values():
            owner = nodeset_owner(pod)
            if owner is not None:
                yield KubeObject(metadata=Meta(name=owner.name, namespace=pod.metadata.namespace, uid=owner.uid))

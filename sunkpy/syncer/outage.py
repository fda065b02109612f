"""Reports once for the cluster, not on each pod, that Slurm cannot be read or that its answers are implausible.

All pods keep their last state, which is as old as the last trusted answer. The outage is reported by Events on the
NodeSets, at the beginning, every half hour, and at the end; and by the metrics `sunkpy_slurm_cache_age_seconds`,
`sunkpy_syncer_slurm_readable` and `sunkpy_syncer_slurm_believed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from sunkpy.core import names
from sunkpy.core.model.objects import KubeObject, Pod
from sunkpy.core.model.slurmd import nodeset_of
from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.kube.events import EventRecorder
from sunkpy.kube.informer import Informer
from sunkpy.syncer.metrics import SyncerMetrics

_AGAIN_AFTER = timedelta(minutes=30)
_UNREADABLE = (
    "Slurm cannot be read: the syncer changes nothing there until slurmrestd and slurmctld answer "
    "(see the syncer's log)"
)
_STRANGE = "Slurm no longer lists its registered nodes: did slurmctld lose its state? The syncer changes nothing there"


class Outage:
    """Reports outages of Slurm. `look` is called each second. It remembers when Slurm's answers were last good."""

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
        self._reported_at: datetime | None = None

    async def look(self, *, is_read: bool, is_trusted: bool) -> None:
        """Report an outage that has begun, that goes on, or that has ended. `is_read`: the last answer is recent;
        `is_trusted`: it is plausible.
        """
        now = self._now()
        self._metrics.readable.set(1 if is_read else 0)
        if is_read and is_trusted:
            self._well_at = now
            if self._reported_at is not None:
                self._reported_at = None
                await self._report(
                    "SlurmReadable", "Slurm can be read again, and its answers are plausible", is_good=True
                )
        elif self._reported_at is None or now - self._reported_at >= _AGAIN_AFTER:
            self._reported_at = now
            what = _UNREADABLE if not is_read else _STRANGE
            reason = "SlurmUnreadable" if not is_read else "SlurmNotBelieved"
            await self._report(reason, f"{what}. {self._as_of()}", is_good=False)

    def _as_of(self) -> str:
        """Return in words how old the state is that pods show. A new leader knows only that it is older than its own
        term.
        """
        if self._well_at is None:
            return f"Pods and Nodes show the state of Slurm from before {rfc3339(self._begun_at)}"
        return f"Pods and Nodes show the state of Slurm as of {rfc3339(self._well_at)}"

    async def _report(self, reason: str, note: str, *, is_good: bool) -> None:
        say = self._events.normal if is_good else self._events.warning
        for nodeset in self._nodesets():
            await say(nodeset, "NodeSet", reason=reason, action="ReadSlurm", note=note)

    def _nodesets(self) -> Iterable[KubeObject]:
        """Return the NodeSets that have slurmd pods in this cluster."""
        one_of_each = {pod.labels.get(names.LABEL_NODESET): pod for pod in self._pods.values()}
        return filter(None, map(nodeset_of, one_of_each.values()))

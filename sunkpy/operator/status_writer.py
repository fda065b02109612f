"""Writes the status, gauges and Events of a NodeSet, as `core.nodeset.status` decides.

A pass writes the status at most once a second, unless the NodeSet cannot be read. That is often enough for people and
dashboards, and bounds what a burst of events costs: a write and a watch event for the apiserver, and the text about a
thousand pods for the operator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from sunkpy.core import names
from sunkpy.core.model.objects import Key
from sunkpy.core.nodeset.spec import NodeSet, NodeSetStatus
from sunkpy.core.nodeset.status import Notice
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.operator import bodies
from sunkpy.operator.metrics import OperatorMetrics

_REPORTED_EACH_S = 1.0


class StatusWriter:
    """Writes the status of NodeSets. A pass calls it after its actions, if `due_in_s` says that it is time."""

    def __init__(
        self,
        kube: Kube,
        *,
        events: EventRecorder,
        metrics: OperatorMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._reported_s: dict[Key, float] = {}

    def due_in_s(self, nodeset: NodeSet) -> float:
        """Return after how many seconds the NodeSet's status may be written again; 0 means now."""
        last_s = self._reported_s.get(nodeset.key)
        return 0.0 if last_s is None else max(last_s + _REPORTED_EACH_S - self._clock(), 0.0)

    def forget(self, key: Key) -> None:
        """Drop the metrics of a NodeSet that is gone."""
        self._reported_s.pop(key, None)
        self._metrics.forget(key)

    async def write(self, nodeset: NodeSet, status: NodeSetStatus, notices: Iterable[Notice]) -> None:
        """Write the status if it differs from the one that the NodeSet has, then the Events (`notices`)."""
        self._reported_s[nodeset.key] = self._clock()
        self._metrics.observe(nodeset, status)
        if status != nodeset.status:
            await self._patch(nodeset, status)
        for notice in notices:
            write = self._events.warning if notice.type == "Warning" else self._events.normal
            await write(nodeset, names.NODESET_KIND, reason=notice.reason, action="Reconcile", note=notice.message)

    async def _patch(self, nodeset: NodeSet, status: NodeSetStatus) -> None:
        try:
            await self._kube.patch(paths.status(paths.nodeset(*nodeset.key)), bodies.nodeset_status(status))
        except errors.NotFound:
            return  # its finalizer was removed in this pass

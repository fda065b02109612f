"""What a NodeSet says of itself: its status, its gauges, its Events. Decided in `core.nodeset.status`, written here."""

from __future__ import annotations

from collections.abc import Iterable

from sunkpy.core import names
from sunkpy.core.nodeset.spec import NodeSet, NodeSetStatus
from sunkpy.core.nodeset.status import Notice
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.operator import bodies
from sunkpy.operator.metrics import OperatorMetrics


class StatusWriter:
    """Called once in each pass, after its actions."""

    def __init__(self, kube: Kube, *, events: EventRecorder, metrics: OperatorMetrics) -> None:
        self._kube = kube
        self._events = events
        self._metrics = metrics

    async def write(self, nodeset: NodeSet, status: NodeSetStatus, notices: Iterable[Notice]) -> None:
        """Write the status if it is another one than what stands there, then the Events."""
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
            return  # its finalizer went in this pass

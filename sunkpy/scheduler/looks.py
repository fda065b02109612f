"""Looks at the gangs that wait when nodes have changed: those to which that matters get a pass, and no others."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final

import structlog

from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.lifecycle import State
from sunkpy.runtime.queue import WorkQueue
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.entries import GangEntry
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.metrics import SchedulerMetrics

_SPREAD_S: Final = 0.5
_AT_ONCE: Final = 1000
_LOOKS_S: Final = 0.01


class Looks:
    """Of one leader; `queue` is where passes are asked for."""

    def __init__(
        self, *, collector: Collector, ledger: Ledger, queue: WorkQueue[GangId], metrics: SchedulerMetrics
    ) -> None:
        self._collector = collector
        self._ledger = ledger
        self._queue = queue
        self._metrics = metrics
        self._is_due = False
        self._once_more = False
        self._to_look_at: deque[GangEntry] = deque()
        self._log = structlog.get_logger("scheduler")

    def nodes_changed(self) -> None:
        """Look a moment later, for nodes change in groups."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(_SPREAD_S, self._look_at_all)

    def _look_at_all(self) -> None:
        self._is_due = False
        if self._to_look_at:
            self._once_more = True
            return
        self._to_look_at.extend(self._ledger)
        self._wake_concerned()

    def _wake_concerned(self) -> None:
        """Those to whom a change of the nodes matters; a part of all at a time, for others have a turn as well."""
        until = time.perf_counter() + _LOOKS_S  # each template is judged anew, against all nodes
        for _ in range(min(len(self._to_look_at), _AT_ONCE)):
            entry = self._to_look_at.popleft()
            if entry.state in (State.WAITING, State.SUBMITTED) and self._is_concerned(entry):
                self._queue.add(entry.id)
            if time.perf_counter() > until:
                break
        if self._to_look_at:
            asyncio.get_running_loop().call_soon(self._wake_concerned)
        elif self._once_more:
            self._once_more = False
            self.nodes_changed()

    def _is_concerned(self, entry: GangEntry) -> bool:
        """Also when that cannot be told: the others are looked at all the same, and a pass says what is wrong."""
        try:
            return self._collector.is_concerned(entry)
        except Exception as error:
            self._metrics.failed_looks.inc()
            log = self._log.bind(gang=str(entry.id))
            log.warning("not judged anew", error=f"{type(error).__name__}: {error}")
            log.debug("trace", exc_info=error)
            return True

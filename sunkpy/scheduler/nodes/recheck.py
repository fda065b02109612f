"""Looks again at the gangs that wait when nodes have changed: a gang to which the change matters gets a pass."""

from __future__ import annotations

import asyncio
import time

import structlog

from sunkpy.core.gang.phases import State
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.record import Record
from sunkpy.scheduler.settings import Times


async def recheck(
    changed: asyncio.Event, collector: Collector, ledger: Ledger, metrics: SchedulerMetrics, times: Times
) -> None:
    """Work until cancelled; `changed` is set when nodes have changed.

    It waits a moment after a change, for nodes change in groups.
    """
    while True:
        await changed.wait()
        await asyncio.sleep(times.recheck_spread_s)
        changed.clear()
        until = time.perf_counter() + times.recheck_turn_s  # each template is judged again, against all nodes
        for record in ledger:
            if record.state in (State.WAITING, State.SUBMITTED) and _is_concerned(record, collector, metrics):
                ledger.queue.add(record.id)
            if time.perf_counter() > until:
                await asyncio.sleep(0)
                until = time.perf_counter() + times.recheck_turn_s


def _is_concerned(record: Record, collector: Collector, metrics: SchedulerMetrics) -> bool:
    """True also when that cannot be worked out: the pass says why, and the other gangs have their turn."""
    try:
        return collector.is_concerned(record)
    except Exception as error:
        metrics.failed_looks.inc()
        log = structlog.get_logger("scheduler").bind(gang=str(record.id))
        log.warning("not judged again", error=f"{type(error).__name__}: {error}")
        log.debug("trace", exc_info=error)
        return True

"""Looks again at the gangs that wait when nodes, or pods on them, have changed: those that it concerns get a pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from sunkpy.core.gang.phases import State
from sunkpy.runtime.queue import Urgency
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.record import Record


async def recheck(
    leader: Leader, changed: asyncio.Event, is_concerned: Callable[[Record], bool], *, spread_s: float
) -> None:
    """Work until cancelled; `changed` is set when something has changed.

    It waits a moment after a change, for nodes and pods change in groups.
    """
    ledger, turn_s = leader.ledger, leader.times.recheck_turn_s
    while True:
        await changed.wait()
        await asyncio.sleep(spread_s)
        changed.clear()
        until = time.perf_counter() + turn_s  # each template is judged again, against all nodes
        for record in ledger:
            if record.state in (State.WAITING, State.SUBMITTED) and _may_be(is_concerned, record, leader.metrics):
                # One change may update thousands of jobs that only queue: whoever comes or goes is not behind them.
                ledger.queue.add(record.id, at_most=Urgency.LAST if record.jobs else Urgency.FIRST)
            if time.perf_counter() > until:
                await asyncio.sleep(0)
                until = time.perf_counter() + turn_s


def _may_be(is_concerned: Callable[[Record], bool], record: Record, metrics: SchedulerMetrics) -> bool:
    """True also when that cannot be worked out: the pass says why, and the other gangs have their turn."""
    try:
        return is_concerned(record)
    except Exception as error:
        metrics.failed_looks.inc()
        log = structlog.get_logger("scheduler").bind(gang=str(record.id))
        log.warning("not judged again", error=f"{type(error).__name__}: {error}")
        log.debug("trace", exc_info=error)
        return True

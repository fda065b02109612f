"""Follows the health of Nodes: in each pass over a Node, `core.health` decides one step, such as to close the Node for
jobs or to open it. Only a share of the Nodes may be closed at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from sunkpy.core.health import HealthStep, HealthView, State, decide_health, read_record
from sunkpy.core.health.decide import is_closed_by_us, is_remedied, next_remedy, waits_until_empty
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.times import utc_now
from sunkpy.core.nodeset.emptied import is_empty
from sunkpy.core.nodeset.windows import Window, is_open, next_opening
from sunkpy.operator.metrics import HealthMetrics
from sunkpy.operator.node_cap import NodeCap
from sunkpy.operator.settings import HealthSettings

WindowsOf = Callable[[Pod], Sequence[Window] | None]
"""A function that returns the windows of a slurmd pod's NodeSet; None as long as they are not known."""


class HealthWatch:
    """Decides the next step of each Node's health by the rules of the settings, such as to close it or have it
    repaired. It limits how many Nodes are closed or under repair at once.
    """

    def __init__(
        self,
        settings: HealthSettings,
        metrics: HealthMetrics,
        *,
        windows_of: WindowsOf = lambda _: (),
        now: Callable[[], datetime] = utc_now,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rules = settings.rules
        self._cap = NodeCap(is_closed_by_us, settings.max_percent)
        self._remedied = NodeCap(is_remedied, settings.max_percent)
        self._metrics = metrics
        self._windows_of = windows_of
        self._now = now
        self._clock = clock
        self._closing_since_s: dict[str, float] = {}

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Update the counts of closed Nodes and Nodes under repair, and the metrics, after a change from the watch."""
        self._cap.node_changed(old, new)
        self._remedied.node_changed(old, new)
        self._metrics.node_changed(old, new)
        if old is None or (since_s := self._closing_since_s.get(old.name)) is None:
            return
        record = read_record(new) if new is not None else None
        if record is not None and record.state is State.DRAINING:
            self._metrics.drained_after.observe(self._clock() - since_s)
        if record is None or record.state not in (State.SUSPECT, State.CLOSING):
            del self._closing_since_s[old.name]

    def asks(self, node: Node, pod: Pod) -> bool:
        """True if the syncer has to be asked whether anything runs on the node, because only when nothing runs there is
        a drain over, and may a repair begin. While the syncer is asked about a drained node, it writes an answer each
        ten seconds. So while a repair has to wait for a maintenance window, or for the end of others, the syncer is not
        asked.
        """
        if waits_until_empty(node):
            return True
        remedy = next_remedy(node, self._rules)
        if remedy is None or not self._remedied.has_room(node, pod):
            return False
        if remedy.outside_windows:
            return True
        windows = self._windows_of(pod)
        return windows is not None and is_open(windows, self._now())

    def step(self, node: Node, pod: Pod | None, occupants: Iterable[Pod]) -> HealthStep:
        """Return the next step of a Node's health. `occupants`: all pods on the Node. If the step closes the Node or
        begins a repair, the Node counts as closed or under repair from now on, before a watch shows it.
        """
        now = self._now()
        windows = self._windows_of(pod) if pod is not None else ()
        view = HealthView(
            node=node,
            pod=pod,
            rules=self._rules,
            now=now,
            has_room=self._cap.has_room(node, pod),
            may_remedy=windows is not None and self._remedied.has_room(node, pod),
            is_empty=is_empty(node, pod, occupants, now),
            opens_at=None if windows is None or is_open(windows, now) else next_opening(windows, now),
        )
        step = decide_health(view)
        if step.begins_remedy:
            self._remedied.note(node, pod)
        if step.closes:
            self._cap.note(node, pod)
            self._closing_since_s[node.name] = self._clock()
        return step

"""Decides which gangs are looked at again after a change. All parts of the scheduler may call this module. It calls
only the ledger, which has the records of gangs.

A change is only recorded here: the stored value of the gang is marked as outdated (doubted), and the gang is put into
the queue in which its value is made again (`scheduler.pods.gangs`), or into the queue for a decision. After a change of
nodes, or of pods on nodes, `recheck` puts those waiting gangs into the queue that this change concerns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from sunkpy.core import names
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.phases import GangState, is_over
from sunkpy.core.model.objects import Pod
from sunkpy.runtime.queue import Urgency
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.record import GangRecord

_AT_ONCE: Final = 32
_GATHERED_S: Final = 0.0001
"""Seconds, for each pod of a gang, in which changes of the gang are gathered. A larger gang takes longer to recognise,
and its pods come and go one after the other.
"""
_QUIET_S: Final = 0.2
"""Seconds in which changes that need no pass are gathered."""

_OURS = frozenset({*names.BINDING_NOTE, names.ANNOTATION_ASKED})
_OF_ITS_NODE = frozenset({"topology.kubernetes.io/region", "topology.kubernetes.io/zone"})


class Wake:
    """Puts gangs into the queues of a leader when something changes on which they depend.

    `nodes` is an event that is set when nodes have changed; `neighbours` is set when pods on nodes have changed that
    other pods must avoid or want to be near. `recheck` clears both when it looks at the waiting gangs.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.nodes, self.neighbours = asyncio.Event(), asyncio.Event()

    def gang(self, id: GangId | None) -> None:
        """Put a gang into the queue for a decision, and wake the Prologs and Epilogs that wait for a change of the
        gang. Nothing happens if the gang is unknown.
        """
        record = self._ledger.get(id)
        if record is not None:
            self._ledger.queue.add(record.id)
            record.fire()

    def later(self, id: GangId | None) -> None:
        """Put a gang into the queue for a decision. If the gang already has a job, gangs whose pods changed come before
        it. Nothing happens if the gang is unknown.
        """
        record = self._ledger.get(id)
        if record is not None:
            self._ledger.queue.add(record.id, at_most=_at_most(record))

    def changed(self, id: GangId | None) -> None:
        """Have the value of a gang made again from its pods, and then a new decision about the gang, because the gang
        may look different now. Nothing happens if the gang is unknown.
        """
        record = self._ledger.get(id)
        if record is None:
            return
        record.is_doubted = record.is_news = True
        if len(record.members) <= _AT_ONCE:
            self._ledger.changed.add(record.id)
        else:
            self._ledger.changed.add_after(record.id, len(record.members) * _GATHERED_S)

    def doubt(self, id: GangId | None) -> None:
        """Have the value of a gang made again from its pods, because of a change that by itself makes no new decision
        about the gang necessary. Nothing happens if the gang is unknown.
        """
        record = self._ledger.get(id)
        if record is not None:
            record.is_doubted = True
            self._ledger.changed.add_after(record.id, _QUIET_S)

    def pod_changed(self, id: GangId, old: Pod | None, new: Pod) -> None:
        """Take into account that a pod of the gang came (`old` is None) or changed, and have the gang looked at again
        if that is necessary. A gang without a record gets one, unless the pod is over.
        """
        if is_over(new) and self._ledger.get(id) is None:
            return
        record = self._ledger.ensure(id)
        sent, is_small = record.member(new).assumed, len(record.members) <= _AT_ONCE
        is_own = sent is not None and is_small and record.is_all_bound and _is_as_sent(sent.pod, new)
        if is_own and record.keep(new):
            return  # the pass that sent the binding has done the rest
        if old is not None and _compared(old) == _compared(new):
            if not (is_small and record.keep(new)):
                self.doubt(id)
            return
        if old is not None and _wishes(old) != _wishes(new):
            record.forgive_change(now=self._ledger.clock())
        self.changed(id)

    def pod_gone(self, id: GangId, pod: Pod) -> None:
        """Take into account that a pod of the gang is gone, and have the gang looked at again. `pod`: the pod as last
        seen.
        """
        record = self._ledger.get(id)
        if record is not None and is_over(pod):
            record.ended[pod.uid] = pod
        self.changed(id)

    def pod_left(self, pod: Pod, id: GangId) -> None:
        """Remove a pod from the record of gang `id`, because the pod belongs to another gang from now on."""
        record = self._ledger.get(id)
        if record is not None:
            record.members.pop(pod.uid, None)
            self.doubt(id)
            record.fire()

    def owner_changed(self, id: GangId, *, is_wish: bool) -> None:
        """Take into account that an owner of the gang's pods changed, and have the gang looked at again. `is_wish`:
        more than the owner's status changed, so a gang whose job was refused may be tried again at once.
        """
        record = self._ledger.get(id)
        if record is not None and is_wish:
            record.forgive_change(now=self._ledger.clock())
        self.changed(id)

    def slurm_answers_again(self) -> None:
        """Let all gangs submit again at once for which a submit got no answer from Slurm."""
        for record in self._ledger:
            if record.uncertain_since is not None:
                record.forgive()
                self._ledger.queue.add(record.id)

    def namespace_changed(self, name: str) -> None:
        """Have the value of all gangs of a namespace made again, because labels or annotations of the namespace may now
        allow other users or jobs. Only gangs that wait for nodes also get a new decision.
        """
        for record in self._ledger:
            if record.id.namespace == name:
                wake = self.changed if record.state in (GangState.WAITING, GangState.SUBMITTED) else self.doubt
                wake(record.id)


def _compared(pod: Pod) -> tuple[object, ...]:
    """Return those parts of a pod whose change makes a new decision about the pod's gang necessary. That is everything
    except the conditions, and except the annotations that name the job as long as the pod has no node.

    The job in the annotations of a bound pod changes when a replacement job takes over the pod's node.
    """
    meta, status = pod.metadata, pod.status
    ours = () if pod.spec.node_name else (names.ANNOTATION_JOB_ID, names.ANNOTATION_ASKED)
    annotations = {key: value for key, value in pod.annotations.items() if key not in ours}
    bare = msgspec.structs.replace(meta, annotations=annotations, resource_version="", generation=0)
    return (bare, pod.spec, msgspec.structs.replace(status, conditions=()))


def _is_as_sent(sent: Pod, pod: Pod) -> bool:
    """True if the pod, as the watch shows it now, is what the scheduler expected when it sent the binding (`sent`).
    Labels of the node, which the apiserver may add with a binding (PodTopologyLabels), are allowed.
    """
    added = {name: value for name, value in pod.labels.items() if name in _OF_ITS_NODE}
    meta = msgspec.structs.replace(sent.metadata, labels=sent.labels | added)
    return _compared(msgspec.structs.replace(sent, metadata=meta)) == _compared(pod)


def _wishes(pod: Pod) -> tuple[object, ...]:
    """Return those parts of a waiting pod by which a user or controller can change what the pod asks for."""
    annotations = {key: value for key, value in pod.annotations.items() if key not in _OURS}
    return (annotations, pod.spec.scheduling_gates, pod.spec.node_selector, pod.spec.tolerations)


async def recheck(
    leader: Leader, changed: asyncio.Event, is_concerned: Callable[[GangRecord], bool], *, spread_s: float
) -> None:
    """After each change that `changed` signals, put those waiting gangs into the queue for which `is_concerned` returns
    True. This runs until cancelled.

    `spread_s`: the pause in seconds between a change and the look at the gangs, because nodes and pods change in
    groups.
    """
    ledger, turn_s = leader.ledger, leader.settings.times.recheck_turn_s
    while True:
        await changed.wait()
        await asyncio.sleep(spread_s)
        changed.clear()
        until = time.perf_counter() + turn_s  # each template is judged again, against all nodes
        for record in ledger:
            is_waiting = record.state in (GangState.WAITING, GangState.SUBMITTED)
            if is_waiting and _may_be(is_concerned, record, leader.metrics):
                # One change may lead to updates of thousands of queued jobs; pods that come or go must not wait for
                # them.
                ledger.queue.add(record.id, at_most=_at_most(record))
            if time.perf_counter() > until:
                await asyncio.sleep(0)
                until = time.perf_counter() + turn_s


def _at_most(record: GangRecord) -> Urgency:
    return Urgency.LAST if record.jobs else Urgency.FIRST


def _may_be(is_concerned: Callable[[GangRecord], bool], record: GangRecord, metrics: SchedulerMetrics) -> bool:
    """Return what `is_concerned` says of a gang: whether a change concerns the gang. True also if `is_concerned` fails:
    then the gang is decided about again, and that reports the error.
    """
    try:
        return is_concerned(record)
    except Exception as error:
        metrics.failed_looks.inc()
        log = structlog.get_logger("scheduler").bind(gang=str(record.id))
        log.warning("not judged again", error=f"{type(error).__name__}: {error}")
        log.debug("trace", exc_info=error)
        return True

"""Recognises gangs: makes one value of a gang's pods, their owners and claims, and what their namespace may ask for.

The value is kept in the gang's record. A change of a pod, an owner, a claim or a namespace marks it as doubted
(`scheduler.pods.wake`). Then it is made again, and the gang is enqueued for a pass. Watches do not report every change
of claims, so those of a gang that asks for devices are compared at each use. `of` makes a doubted value again without
storing it, so reading changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from sunkpy.core.gang.access import Namespace, restricted, rule_for, unknown_namespace
from sunkpy.core.gang.devices.asked import Claimed
from sunkpy.core.gang.gang import Gang, with_pods
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.limits import within_limits
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.pods import index
from sunkpy.scheduler.pods.index import PodsByGang
from sunkpy.scheduler.pods.recognition import Recognition
from sunkpy.scheduler.pods.wake import Wake
from sunkpy.scheduler.record import GangRecord, Recognised
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.scheduler.views import RecordView


class Gangs:
    """Recognises the gangs of one leader. If that fails for a gang, it is logged and tried again (`runtime.queue`).

    Args:
        may_claim: returns whether a gang, as its family made it, can have claims for devices.
        claimed: returns what is known of the gang's claims; None if it has none, or none can be allocated.
    """

    def __init__(
        self,
        settings: SchedulerSettings,
        ledger: Ledger,
        wake: Wake,
        members: PodsByGang,
        recognition: Recognition,
        *,
        namespace_of: Callable[[str], Namespace | None],
        may_claim: Callable[[Gang], bool],
        claimed: Callable[[Gang], Claimed | None],
    ) -> None:
        self._settings = settings
        self._handed_out = settings.handed_out
        self._ledger = ledger
        self._wake = wake
        self._members = members
        self._recognition = recognition
        self._namespace_of = namespace_of
        self._may_claim = may_claim
        self._claimed = claimed

    async def reconcile(self, id: GangId) -> float | None:
        """Recognise a gang that has changed, and enqueue it for a pass. Return the seconds until this is repeated; None
        if only a change leads to it.
        """
        record = self._ledger.get(id)
        if record is None:
            return None
        self.recognise(record)
        known = record.recognised
        has_left = known.gang is not None and self._members.part(known.gang, known.beyond)
        if record.is_news or record.is_doubted:  # else a pass has seen it already
            self.recognise(record)
            record.is_news = False
            self._wake.gang(id)
        return index.LEFT_OUT_S if has_left else None

    def recognise(self, record: GangRecord) -> None:
        """Store the gang as it is now in its record, if the stored value is doubted."""
        if not record.is_doubted:
            return
        now = self.of(record)
        if now is not record.recognised and now.gang is not None:
            record.ended.clear()
        record.recognised, record.is_doubted = now, False

    def of(self, record: RecordView) -> Recognised:
        """Return the gang as it is now, and store nothing."""
        known = record.recognised
        if record.is_doubted:
            return self._work_out(record)
        if known.claiming is not None and self._claimed(known.claiming) != known.claimed:
            return self._work_out(record)
        return known

    def _work_out(self, record: RecordView) -> Recognised:
        pods = tuple(record.as_bound(pod) for pod in self._members.pods_of(record.id))
        if not pods:
            return _gone(record)
        gang = self._recognition.assemble(record.id, pods, apart=self._members.apart_from(record.id))
        members = {pod.uid for pod in gang.members}
        claiming = gang if self._may_claim(gang) else None
        claimed = self._claimed(gang) if claiming is not None else None
        limited = within_limits(gang, self._settings.gpu_resources, claimed, self._handed_out)
        namespace = self._namespace_of(record.id.namespace)
        if namespace is None:
            allowed = unknown_namespace(limited)
        else:
            rule = rule_for(self._settings.access, namespace, annotated=self._settings.annotated_access)
            allowed = restricted(limited, rule, default_partition=self._settings.default_partition)
        return Recognised(
            gang=allowed,
            pods=pods,
            beyond=tuple(pod for pod in pods if pod.uid not in members),
            is_of_known_namespace=namespace is not None,
            claiming=claiming,
            claimed=claimed,
        )


def _gone(record: RecordView) -> Recognised:
    """Return the value of a gang whose pods are all gone: it keeps the gang as last seen, with its ended pods."""
    before = record.recognised
    if before.gang is None:
        return before
    return Recognised(last_gang=with_pods(before.gang, record.ended))

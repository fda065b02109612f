"""Recognises gangs: makes one value of a gang from its pods, their owners and claims, and what their namespace may ask
of Slurm.

The value is kept in the gang's record. After a change of a pod, an owner, a claim or the namespace, the value is marked
as doubted (`scheduler.pods.wake`), made again, and a new decision about the gang follows. Watches do not report each
change of claims that matters. So for a gang that asks for devices, its claims are compared whenever the value is used.
The method `of` makes a doubted value again without storing it, so it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from sunkpy.core.gang.access import Namespace, restricted, rule_for, unknown_namespace
from sunkpy.core.gang.devices.asked import Claimed
from sunkpy.core.gang.gang import Gang, with_pods
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.limits import within_limits
from sunkpy.core.model.concerns import Concern
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.pods import index
from sunkpy.scheduler.pods.index import PodsByGang
from sunkpy.scheduler.pods.recognition import Recognition
from sunkpy.scheduler.pods.wake import Wake
from sunkpy.scheduler.record import GangRecord, Recognised
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.scheduler.views import RecordView


class Gangs:
    """Makes the values of the gangs of one leader from their pods. If that fails for a gang, the error is logged, and
    the gang is tried again (`runtime.queue`).

    Args:
        may_claim: returns whether the pods of a gang can have claims for devices.
        claimed: returns what is known of a gang's claims; None if the gang has none, or if the apiserver serves none.
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
        """Make the value of a gang again from its pods, if something has changed, and put the gang into the queue for a
        decision. Return after how many seconds this is to be repeated; None if only a change makes that necessary.
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
        """Make the value of a gang from its pods as they are now, and store it in the gang's record. Nothing happens if
        nothing has changed since the stored value was made.
        """
        if not record.is_doubted:
            return
        now = self.of(record)
        if now is not record.recognised and now.gang is not None:
            record.ended.clear()
        record.recognised, record.is_doubted = now, False

    def of(self, record: RecordView) -> Recognised:
        """Return the gang as it is now, as one value. The stored value is returned if nothing has changed since it was
        made; if not, a new value is made. Nothing is stored.
        """
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
        claiming = gang if Concern.DEVICES in gang.concerns and self._may_claim(gang) else None
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
    """Return the value of a gang whose pods are all gone: the gang as last seen, with those of its pods that
    had ended.
    """
    before = record.recognised
    if before.gang is None:
        return before
    return Recognised(last_gang=with_pods(before.gang, record.ended))

"""Asks the families which gang a pod belongs to, and what that gang looks like. A family is the code for one kind of
workload, such as Jobs.

Families read what any user may have written. If a family fails, which is a bug, only this one pod or gang is affected:
the pod gets no gang yet, or the gang is refused, and Events say so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import structlog

from sunkpy.core.gang import families
from sunkpy.core.gang.families import FAMILIES, Families
from sunkpy.core.gang.families.declaration import LARGEST_GANG
from sunkpy.core.gang.gang import Gang, Owners
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Pod
from sunkpy.scheduler.owners.index import OwnerIndex
from sunkpy.scheduler.owners.watch import OnUnreadable


class Recognition:
    """Asks the families (the code for each kind of workload) about pods and their owners. If the answer is None, it is
    not known yet; `why_unknown` says why.
    """

    def __init__(
        self,
        known: Families = FAMILIES,
        *,
        owners: OwnerIndex,
        on_unreadable: OnUnreadable,
        largest: int = LARGEST_GANG,
    ) -> None:
        self._families = known
        self._largest = largest
        self._owners = owners
        self._on_unreadable = on_unreadable
        self._odd: dict[str, str] = {}
        self._log = structlog.get_logger("recognition")

    def identify(self, pod: Pod) -> GangId | None:
        """Return the id of the gang to which a pod belongs by its labels, annotations and owners. None while its owners
        are not all known, or if the code for its kind of workload failed.
        """
        with self._guarding(pod):
            owners = self._owners.of(pod)
            self._odd.pop(pod.uid, None)
            return families.identify(pod, owners, families=self._families) if owners is not None else None
        return None

    def assemble(self, id: GangId, pods: Sequence[Pod], *, apart: Sequence[Pod] = ()) -> Gang:
        """Return the gang that these pods form, as their owners describe it now. If the code for its kind of workload
        fails, it is a gang that is refused.

        `apart`: pods that have left this gang and have jobs of their own; the gang does not wait for others in their
        place.
        """
        first = pods[0]
        with self._guarding(first):
            above = [self._owners.of(pod) or () for pod in pods]
            spokesman = self._spokesman(id, pods, above) if len(pods) > 1 else 0
            ranked = (pods[spokesman], *pods[:spokesman], *pods[spokesman + 1 :])
            owners, largest = above[spokesman], self._largest
            return families.assemble_beside(id, ranked, apart, owners, families=self._families, largest=largest)
        return families.unreadable(id, pods, why=self._odd.get(first.uid, ""))

    def why_unknown(self, uid: str) -> str:
        """Return, in words for people, why the gang of the pod with this uid is unknown; empty text if it is known."""
        return self._odd.get(uid) or self._owners.why_unknown(uid)

    def forget(self, uid: str) -> None:
        """Forget what is known of the pod with this uid, because the pod is gone."""
        self._odd.pop(uid, None)
        self._owners.forget(uid)

    def _spokesman(self, id: GangId, pods: Sequence[Pod], above: Sequence[Owners]) -> int:
        """Return the index of the first pod that still belongs to the gang by its own labels, annotations and owners; 0
        if there is none. This pod describes the gang. A pod whose labels were changed later stays in the gang, but does
        not describe it.
        """
        for number, (pod, owners) in enumerate(zip(pods, above, strict=True)):
            if families.speaks_for(id, pod, owners, families=self._families):
                return number
        return 0

    @contextlib.contextmanager
    def _guarding(self, pod: Pod) -> Iterator[None]:
        """Run the body of a `with` statement, which calls the code for a kind of workload. An error in it is caught,
        and reported for this pod.
        """
        log = self._log
        try:
            yield
        except Exception as error:
            why = f"the scheduler failed on it ({type(error).__name__}: {error}): please report this"
            self._odd[pod.uid] = why
            self._on_unreadable("Pod", pod, why)
            log.debug("trace", exc_info=error)

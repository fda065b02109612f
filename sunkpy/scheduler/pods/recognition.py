"""Asks the families of workloads which gang a pod belongs to, and what a gang looks like.

Families read what any user may have written. If one fails, which is a bug, only this pod or gang is concerned: the pod
gets no gang yet, the gang is refused, and Events say so.
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
    """Asks the families about pods and their owners. An answer of None means not known yet: see `why_unknown`."""

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
        """Return the gang of a watched pod; None while its owners are unknown, or if a family failed."""
        with self._guarding(pod):
            owners = self._owners.of(pod)
            self._odd.pop(pod.uid, None)
            return families.identify(pod, owners, families=self._families) if owners is not None else None
        return None

    def assemble(self, id: GangId, pods: Sequence[Pod], *, apart: Sequence[Pod] = ()) -> Gang:
        """Return the gang of these pods, as their owners describe it now. `apart`: pods that were set apart from it."""
        first = pods[0]
        with self._guarding(first):
            above = [self._owners.of(pod) or () for pod in pods]
            spokesman = self._spokesman(id, pods, above) if len(pods) > 1 else 0
            ranked = (pods[spokesman], *pods[:spokesman], *pods[spokesman + 1 :])
            owners, largest = above[spokesman], self._largest
            return families.assemble_beside(id, ranked, apart, owners, families=self._families, largest=largest)
        return families.unreadable(id, pods, why=self._odd.get(first.uid, ""))

    def why_unknown(self, uid: str) -> str:
        """Return, in words for people, why the gang of a pod is unknown; empty if it is known."""
        return self._odd.get(uid) or self._owners.why_unknown(uid)

    def forget(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._odd.pop(uid, None)
        self._owners.forget(uid)

    def _spokesman(self, id: GangId, pods: Sequence[Pod], above: Sequence[Owners]) -> int:
        """Return the index of the pod whose labels and annotations describe the gang. A pod whose own were changed
        later stays a member, but does not describe the gang.
        """
        for number, (pod, owners) in enumerate(zip(pods, above, strict=True)):
            if families.speaks_for(id, pod, owners, families=self._families):
                return number
        return 0

    @contextlib.contextmanager
    def _guarding(self, pod: Pod) -> Iterator[None]:
        """Catch an error of a family, and report it for this pod."""
        log = self._log
        try:
            yield
        except Exception as error:
            why = f"the scheduler cannot cope with it ({type(error).__name__}: {error}): please report this"
            self._odd[pod.uid] = why
            self._on_unreadable("Pod", pod, why)
            log.debug("trace", exc_info=error)

"""Pods that have become gangs of their own: extras, beyond the seats of their gang, and those that were set apart.

A pod set apart still counts for its gang, which does not wait for another pod instead. An extra does not count.

They stay so. A new leader learns of them from the comments of their jobs, and of the gang they left when it finds the
pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from sunkpy.core.gang.gang import Gang, apart_unit, extra_unit, is_apart, solo_pod
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Pod
from sunkpy.runtime.groups import Groups


class SoloGangs:
    """Gangs of one pod that came from another gang, their *base*."""

    def __init__(self) -> None:
        self._known: set[GangId] = set()
        self._bases: dict[GangId, GangId] = {}
        self._apart: Groups[GangId, str, GangId] = Groups()
        self._left_out_at: dict[str, float] = {}

    def note(self, id: GangId) -> None:
        """Note that there is a job of such a gang."""
        self._known.add(id)

    def settle(self, base: GangId | None, pod: Pod) -> GangId | None:
        """The gang of a pod that looks as one of `base`; None when it is not known as which it looks."""
        if base is None:
            return None
        for id in (extra_id(base, pod), apart_id(base, pod)):
            if id in self._known:
                self.leave(base, id)
                return id
        return base

    def leave(self, base: GangId, id: GangId) -> None:
        """The pod that is the gang `id` belongs to `base` no more."""
        self._known.add(id)
        self._left_out_at.pop(solo_pod(id), None)
        if is_apart(id):
            self._bases[id] = base
            self._apart.put(base, id.unit, id)

    def base_of(self, id: GangId) -> GangId | None:
        """The gang that counts this one, a pod that was set apart from it; None for all others."""
        return self._bases.get(id)

    def apart_from(self, base: GangId, pods: Mapping[GangId, Mapping[str, Pod]]) -> list[Pod]:
        """Those of the pods, by gang and uid, that were set apart from this one and live."""
        own = sorted(self._apart.of(base), key=lambda id: id.unit)
        found = (pod for id in own for pod in pods.get(id, {}).values())
        return [pod for pod in found if not pod.is_finished and not pod.is_deleting]

    def forget(self, id: GangId) -> None:
        """The pod is gone."""
        self._known.discard(id)
        base = self._bases.pop(id, None)
        if base is not None:
            self._apart.drop(base, id.unit)

    def left_out(self, gang: Gang, beyond: Sequence[Pod], *, now: float) -> list[tuple[Pod, float]]:
        """The pods beyond the seats of the gang, and since when they have had none; none that is bound.

        Nor any while a member is being deleted, for its seat may be theirs.
        """
        if self._left_out_at:
            for uid in {pod.uid for pod in gang.members} & self._left_out_at.keys():
                del self._left_out_at[uid]
        if not beyond or not gang.is_complete or any(pod.is_deleting for pod in gang.members):
            return []
        left = (pod for pod in beyond if not _holds_something(pod))
        return [(pod, self._left_out_at.setdefault(pod.uid, now)) for pod in left]

    def forget_pod(self, uid: str) -> None:
        """The pod is gone."""
        self._left_out_at.pop(uid, None)


def extra_id(base: GangId, pod: Pod) -> GangId:
    """The pod as a gang beyond the seats of another."""
    return msgspec.structs.replace(base, unit=extra_unit(pod))


def apart_id(base: GangId, pod: Pod) -> GangId:
    """The pod as a gang set apart from another."""
    return msgspec.structs.replace(base, unit=apart_unit(pod))


def _holds_something(pod: Pod) -> bool:
    return bool(pod.spec.node_name) or pod.is_finished or pod.is_deleting

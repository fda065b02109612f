"""Keeps which pods belong to which gang, from the watch of the pods that name this scheduler.

A pod is identified once, when its owners are known. No later change of a label or an owner moves it to another gang.
Until then it is *unidentified*, even if it is already on a node. Two things move a pod: a binding note
(`scheduler.pods.by_note`), and that it becomes a *solo* gang for good. A solo gang is either an *extra*, because its
gang has more pods than seats, or a pod *set apart*, because its gang's job has no slot for it. A living pod that was
set apart does not count as missing in its gang.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import structlog

from sunkpy.core.gang.gang import Gang, apart_unit, extra_unit, is_apart, solo_pod
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Owner, Pod
from sunkpy.runtime.groups import Groups, Watched
from sunkpy.scheduler.owners.index import OwnerIndex
from sunkpy.scheduler.pods.recognition import Recognition
from sunkpy.scheduler.pods.wake import Wake

LEFT_OUT_S: Final = 2.0
"""Seconds without a seat after which a pod becomes an extra: the watch may show a little later that the owner declares
more seats.
"""
_MOST_AT_ONCE: Final = 256
"""The most pods that become extras at a time: a gang of two seats may have thousands of pods, at 40 µs each."""
_FIRST_LOOK_S: Final = 15.0


class SoloGangs:
    """Gangs of one pod that left another gang, their *base*. A pod that was set apart still counts for its base, which
    does not wait for another pod in its place. An extra pod does not count.

    A new leader learns of solo gangs from the comments of their jobs, and of their bases when it finds the pods.
    """

    def __init__(self) -> None:
        self._known: set[GangId] = set()
        self._bases: dict[GangId, GangId] = {}
        self._apart: Groups[GangId, str, GangId] = Groups()
        self._left_out_at: dict[str, float] = {}

    def note(self, id: GangId) -> None:
        """Note that a solo gang exists, because it has a job."""
        self._known.add(id)

    def settle(self, base: GangId | None, pod: Pod) -> GangId | None:
        """Return the gang of a pod that its family puts into `base`: `base`, or a known solo gang of this pod; None
        without a base.
        """
        if base is None:
            return None
        for id in (extra_id(base, pod), apart_id(base, pod)):
            if id in self._known:
                self.leave(base, id)
                return id
        return base

    def leave(self, base: GangId, id: GangId) -> None:
        """Take the pod of solo gang `id` out of its gang `base`."""
        self._known.add(id)
        self._left_out_at.pop(solo_pod(id), None)
        if is_apart(id):
            self._bases[id] = base
            self._apart.put(base, id.unit, id)

    def base_of(self, id: GangId) -> GangId | None:
        """Return the base of a solo gang whose pod was set apart; None for all other gangs."""
        return self._bases.get(id)

    def apart_from(self, base: GangId, pods: Mapping[GangId, Mapping[str, Pod]]) -> list[Pod]:
        """Return the pods that were set apart from this gang, except finished pods and pods that are being deleted.

        `pods`: all pods, by gang and uid.
        """
        own = sorted(self._apart.of(base), key=lambda id: id.unit)
        found = (pod for id in own for pod in pods.get(id, {}).values())
        return [pod for pod in found if not pod.is_finished and not pod.is_deleting]

    def forget(self, id: GangId) -> None:
        """Forget a solo gang whose pod is gone."""
        self._known.discard(id)
        base = self._bases.pop(id, None)
        if base is not None:
            self._apart.drop(base, id.unit)

    def left_out(self, gang: Gang, beyond: Sequence[Pod], *, now: float) -> list[tuple[Pod, float]]:
        """Return the unbound pods beyond the seats of the gang, and since when they have had no seat.

        The list is empty while a member is being deleted, because one of them may get its seat.
        """
        if self._left_out_at:
            for uid in {pod.uid for pod in gang.members} & self._left_out_at.keys():
                del self._left_out_at[uid]
        if not beyond or not gang.is_complete or any(pod.is_deleting for pod in gang.members):
            return []
        left = (pod for pod in beyond if not _holds_something(pod))
        return [(pod, self._left_out_at.setdefault(pod.uid, now)) for pod in left]

    def forget_pod(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._left_out_at.pop(uid, None)


def extra_id(base: GangId, pod: Pod) -> GangId:
    """Return the id of a pod's solo gang as an extra of gang `base`."""
    return msgspec.structs.replace(base, unit=extra_unit(pod))


def apart_id(base: GangId, pod: Pod) -> GangId:
    """Return the id of a pod's solo gang as set apart from gang `base`."""
    return msgspec.structs.replace(base, unit=apart_unit(pod))


def _holds_something(pod: Pod) -> bool:
    return bool(pod.spec.node_name) or pod.is_finished or pod.is_deleting


class PodsByGang:
    """Knows the gang of each pod that names this scheduler, and the pods of each gang; fed by the informer of pods."""

    def __init__(self, recognition: Recognition, *, owners: OwnerIndex, wake: Wake, clock: Callable[[], float]) -> None:
        self._recognition = recognition
        self._owners = owners
        self._wake = wake
        self._clock = clock
        self._pods: Groups[GangId, str, Pod] = Groups()
        self._by_node: Watched[str, Pod] = Watched(lambda pod: filter(None, [pod.spec.node_name]))
        self._ids: dict[str, GangId] = {}
        self._unidentified: dict[str, Pod] = {}
        self._solo = SoloGangs()
        self._log = structlog.get_logger("pods")
        self.on_change: Callable[[Pod | None, Pod], None] = lambda old, new: None
        """Called with each pod that could not be identified, at each attempt, and with each change of all other pods.
        """
        owners.on_change = self._owner_changed

    # ------------------------------------------------------------- questions

    def find_id(self, pod: Pod) -> GangId | None:
        """Return the gang of a pod; None while it is unidentified."""
        return self._ids.get(pod.uid)

    def says(self, pod: Pod, id: GangId) -> bool:
        """True if the pod belongs to this gang, as a member or as a solo gang, by its present labels, annotations and
        owners.
        """
        said = self._recognition.identify(pod)
        return said is not None and id in (said, extra_id(said, pod), apart_id(said, pod))

    async def wait_for_owners(self) -> None:
        """Return when the gang of every present pod is known, or the reason why it cannot be known; at the latest after
        `_FIRST_LOOK_S`.
        """
        there = tuple(self._unidentified)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_LOOK_S):
                while any(uid in self._unidentified and self._owners.is_looking(uid) for uid in there):
                    await self._owners.changed()

    def pods_of(self, id: GangId) -> Sequence[Pod]:
        """Return the pods of a gang that the watch shows, in no order."""
        return self._pods.of(id)

    def has_living(self, owner: Owner) -> bool:
        """True if a pod below this owner has not ended."""
        pods = (self.find(uid) for uid in self._owners.below(owner))
        return any(pod is not None and not pod.is_finished for pod in pods)

    def find(self, uid: str) -> Pod | None:
        """Return the pod with this uid; None if the watch does not show it."""
        id = self._ids.get(uid)
        return self._pods.get(id, {}).get(uid) if id is not None else self._unidentified.get(uid)

    def on_node(self, node: str) -> Sequence[Pod]:
        """Return the pods that are bound to a Kubernetes node, with unidentified ones."""
        return self._by_node.of(node)

    def apart_from(self, id: GangId) -> Sequence[Pod]:
        """Return the living pods that were set apart from a gang."""
        return self._solo.apart_from(id, self._pods)

    # --------------------------------------------------------------- changes

    def update(self, old: Pod | None, new: Pod | None) -> None:
        """Follow one change of a pod in the informer."""
        self._by_node.follow(old, new)
        if old is not None and (new is None or new.uid != old.uid):
            self._forget(old)
            old = None
        if new is None:
            return
        id = self._ids.get(new.uid)
        if id is None:
            self._identify(new)
            return
        self._pods.put(id, new.uid, new)
        self._wake.doubt(self._solo.base_of(id))
        self._wake.pod_changed(id, old, new)
        self.on_change(old, new)

    def adopt(self, pod: Pod, id: GangId) -> None:
        """Put a pod, unidentified or of another gang, into the gang whose job proves that the pod is its own."""
        if pod.uid in self._unidentified:
            self._settle(pod, id)
        elif self._ids.get(pod.uid, id) != id:
            self._move(pod, id)

    def make_solo(self, pod: Pod) -> None:
        """Set a pod apart from its gang, whose job has no slot for it or does not have its node."""
        base = self._ids.get(pod.uid)
        if base is not None and not solo_pod(base):
            self._move(pod, apart_id(base, pod))

    def expect(self, id: GangId) -> None:
        """Note a solo gang that an earlier leader made, and whose pod was not seen yet.

        A user can write any unit into a job's comment. So it counts only if the pod would belong to the base anyway.
        """
        if solo_pod(id):
            self._solo.note(id)

    def forget(self, id: GangId) -> None:
        """Forget a gang that is over and has no pods here: no event of a pod would remove it."""
        if id not in self._pods:
            self._wake.doubt(self._solo.base_of(id))
            self._solo.forget(id)

    def part(self, gang: Gang, beyond: Sequence[Pod]) -> bool:
        """Make extras of pods that have had no seat in the gang for `LEFT_OUT_S`. Return whether others still wait for
        that.
        """
        now = self._clock()
        left_out = self._solo.left_out(gang, beyond, now=now)
        due = [pod for pod, since in left_out if now - since >= LEFT_OUT_S]
        for pod in due[:_MOST_AT_ONCE]:
            self._move(pod, extra_id(gang.id, pod))
        return len(left_out) > len(due) or len(due) > _MOST_AT_ONCE

    def _identify(self, pod: Pod) -> None:
        """Find the gang of a new or unidentified pod, if that is possible now."""
        id = self._solo.settle(self._recognition.identify(pod), pod)
        if id is not None:
            self._settle(pod, id)
        else:
            self._unidentified[pod.uid] = pod
            self.on_change(None, pod)

    def _settle(self, pod: Pod, id: GangId) -> None:
        self._unidentified.pop(pod.uid, None)
        self._ids[pod.uid] = id
        self._pods.put(id, pod.uid, pod)
        self._wake.doubt(self._solo.base_of(id))
        self._wake.pod_changed(id, None, pod)

    def _owner_changed(self, uid: str, is_wish: bool) -> None:
        if uid in self._unidentified:
            self._identify(self._unidentified[uid])
        elif uid in self._ids:
            self._wake.owner_changed(self._ids[uid], is_wish=is_wish)

    def _move(self, pod: Pod, id: GangId) -> None:
        """Move a pod to another gang, mostly a solo gang, for good."""
        base = self._ids[pod.uid]
        pod = self._pods[base][pod.uid]  # as the watch has it, without an assumed binding
        self._pods.drop(base, pod.uid)
        self._solo.leave(base, id)
        self._log.info("moved", pod="/".join(pod.key), gang=str(id), before=str(base))
        self._wake.pod_left(pod, base)
        self._settle(pod, id)

    def _forget(self, pod: Pod) -> None:
        id = self._ids.pop(pod.uid, None)
        if id is not None:
            self._pods.drop(id, pod.uid)
            self._wake.doubt(self._solo.base_of(id))
            self._solo.forget(id)
            self._wake.pod_gone(id, pod)
        self._unidentified.pop(pod.uid, None)
        self._solo.forget_pod(pod.uid)
        self._recognition.forget(pod.uid)

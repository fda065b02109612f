"""Which pods belong to which gang, kept from the watch of the pods that name this scheduler.

A pod is identified once, when it is known what stands above it, and its identity stays: no change of a label or of an
owner moves it to another gang. Until then it is *unidentified*; it is on its node all the same. What moves a pod is the
note that came with its binding (`scheduler.pods.by_note`), and that it becomes a *solo* gang, for good: an extra,
because there are more pods than seats; or a pod that is set apart, because the job of its gang has no room for it. The
latter is not missing in its gang as long as it lives.
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
"""A pod that has had no seat for so many seconds is an extra. The watch may show an owner that declares more seats a
little later.
"""
_MOST_AT_ONCE: Final = 256
"""Pods that get a gang of their own in one turn; a gang of two may have thousands, at 40 µs each."""
_FIRST_LOOK_S: Final = 15.0


class SoloGangs:
    """Gangs of one pod that came from another gang, their *base*. A pod that was set apart still counts for its base,
    which does not wait for another pod in its place. An extra pod does not count.

    A new leader learns of them from the comments of their jobs, and of the gang they left when it finds the pods.
    """

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
        """Take the pod of solo gang `id` out of its gang `base`."""
        self._known.add(id)
        self._left_out_at.pop(solo_pod(id), None)
        if is_apart(id):
            self._bases[id] = base
            self._apart.put(base, id.unit, id)

    def base_of(self, id: GangId) -> GangId | None:
        """The gang that counts this one, a pod that was set apart from it; None for all others."""
        return self._bases.get(id)

    def apart_from(self, base: GangId, pods: Mapping[GangId, Mapping[str, Pod]]) -> list[Pod]:
        """Pods that were set apart from this gang (solo gangs), and have neither finished nor are being deleted.

        `pods`: all pods, by gang and uid.
        """
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
        """The pods beyond the seats of the gang, and since when they have had no seat. Bound pods are not among them.

        It is empty while a member is being deleted, because they may get its seat.
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


class PodsByGang:
    """Pods by gang. A handler of the informer."""

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
        """The gang of a pod; None while that is not known."""
        return self._ids.get(pod.uid)

    def says(self, pod: Pod, id: GangId) -> bool:
        """True if the pod belongs to this gang, as a member or as a solo gang, by its present labels, annotations and
        owners.
        """
        said = self._recognition.identify(pod)
        return said is not None and id in (said, extra_id(said, pod), apart_id(said, pod))

    async def wait_for_owners(self) -> None:
        """Return when it is known of every pod that is there where it belongs, or why that cannot be known; or after a
        while.
        """
        there = tuple(self._unidentified)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_LOOK_S):
                while any(uid in self._unidentified and self._owners.is_looking(uid) for uid in there):
                    await self._owners.changed()

    def pods_of(self, id: GangId) -> Sequence[Pod]:
        """The pods of a gang that are there, in no order."""
        return self._pods.of(id)

    def has_living(self, owner: Owner) -> bool:
        """True if some pod below the object has not ended."""
        pods = (self.find(uid) for uid in self._owners.below(owner))
        return any(pod is not None and not pod.is_finished for pod in pods)

    def find(self, uid: str) -> Pod | None:
        """The pod with this uid, if it is watched."""
        id = self._ids.get(uid)
        return self._pods.get(id, {}).get(uid) if id is not None else self._unidentified.get(uid)

    def on_node(self, node: str) -> Sequence[Pod]:
        """The pods that are bound to a Kubernetes node, the unidentified ones included."""
        return self._by_node.of(node)

    def apart_from(self, id: GangId) -> Sequence[Pod]:
        """The pods that were set apart from a gang and live."""
        return self._solo.apart_from(id, self._pods)

    # --------------------------------------------------------------- changes

    def update(self, old: Pod | None, new: Pod | None) -> None:
        """Follow one change of the informer's store."""
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
        """The job of a gang proves that this pod is its own, unidentified or taken for another's."""
        if pod.uid in self._unidentified:
            self._settle(pod, id)
        elif self._ids.get(pod.uid, id) != id:
            self._move(pod, id)

    def make_solo(self, pod: Pod) -> None:
        """The job of its gang has no room for this pod, or does not have its node."""
        base = self._ids.get(pod.uid)
        if base is not None and not solo_pod(base):
            self._move(pod, apart_id(base, pod))

    def expect(self, id: GangId) -> None:
        """Note a job whose pod became a solo gang under an earlier leader, and was not seen yet.

        The unit in the job's comment may be any text of a user. So it counts only if the pod would belong to that gang
        anyway.
        """
        if solo_pod(id):
            self._solo.note(id)

    def forget(self, id: GangId) -> None:
        """Forget a gang that is over. If it is known only by its job, no event of a pod would say so."""
        if id not in self._pods:
            self._wake.doubt(self._solo.base_of(id))
            self._solo.forget(id)

    def part(self, gang: Gang, beyond: Sequence[Pod]) -> bool:
        """Make extras of the pods beyond the seats of a gang that have had none for a while; whether some are left."""
        now = self._clock()
        left_out = self._solo.left_out(gang, beyond, now=now)
        due = [pod for pod, since in left_out if now - since >= LEFT_OUT_S]
        for pod in due[:_MOST_AT_ONCE]:
            self._move(pod, extra_id(gang.id, pod))
        return len(left_out) > len(due) or len(due) > _MOST_AT_ONCE

    def _identify(self, pod: Pod) -> None:
        """Now, if it can be."""
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
        """To another gang, mostly its own, for the rest of its life."""
        base = self._ids[pod.uid]
        pod = self._pods[base][pod.uid]  # as the watch has it, without what is assumed of it
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

"""Keeps which pods belong to which gang (the pods that one Slurm job stands for). The pods come from the watch of the
pods that name this scheduler.

The gang of a pod is found once, when the owners of the pod are known; until then the pod is *unidentified*, even if it
is already on a node. Later changes of its labels or owners do not move the pod to another gang. Two things do: evidence
from the annotations written with its binding (`scheduler.pods.by_note`), or that the pod becomes a *solo* gang, a gang
of one pod, for good. A seat is room in the job for one pod. A solo gang is either an *extra*, because its gang has more
pods than seats, or *set apart*, because the job of its gang has no place for it. A living pod that was set apart does
not count as missing in its gang.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import structlog

from sunkpy.core import names
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
    """The solo gangs. A solo gang has one pod, which left another gang: its base. There are two kinds:

    * *apart*: the job of the base had no place for the pod. The base counts the pod's seat as filled, and does not wait
      for another pod there.
    * *extra*: the base had more pods than seats. The base does not count the pod.

    A new leader learns from the comments of jobs which solo gangs exist, and from the pods which base each of them has.
    """

    def __init__(self) -> None:
        self._known: set[GangId] = set()
        self._bases: dict[GangId, GangId] = {}
        self._apart: Groups[GangId, str, GangId] = Groups()
        self._left_out_at: dict[str, float] = {}

    def note(self, id: GangId) -> None:
        """Record that a solo gang (a gang of one pod that left another gang) exists, because a job for it was found."""
        self._known.add(id)

    def settle(self, base: GangId | None, pod: Pod) -> GangId | None:
        """Return the gang of a pod that belongs to gang `base` by its labels and owners: a solo gang of this pod alone,
        if one is known, or else `base`. None if `base` is None.
        """
        if base is None:
            return None
        for id in (extra_id(base, pod), apart_id(base, pod)):
            if id in self._known:
                self.leave(base, id)
                return id
        return base

    def leave(self, base: GangId, id: GangId) -> None:
        """Record that the pod of solo gang `id` (a gang of this pod alone) has left gang `base`."""
        self._known.add(id)
        self._left_out_at.pop(solo_pod(id), None)
        if is_apart(id):
            self._bases[id] = base
            self._apart.put(base, id.unit, id)

    def base_of(self, id: GangId) -> GangId | None:
        """Return the gang that the pod of gang `id` left, if it is the gang of a single pod that was set apart because
        that gang's job had no place for it. None for all other gangs.
        """
        return self._bases.get(id)

    def apart_from(self, base: GangId, pods: Mapping[GangId, Mapping[str, Pod]]) -> list[Pod]:
        """Return the pods that left gang `base` because its job had no place for them, and now are gangs of their own.
        Pods that have finished or are being deleted are left out.

        `pods`: all pods, by gang and uid.
        """
        own = sorted(self._apart.of(base), key=lambda id: id.unit)
        found = (pod for id in own for pod in pods.get(id, {}).values())
        return [pod for pod in found if not pod.is_finished and not pod.is_deleting]

    def forget(self, id: GangId) -> None:
        """Forget a solo gang (a gang of one pod that left another gang), because its pod is gone."""
        self._known.discard(id)
        base = self._bases.pop(id, None)
        if base is not None:
            self._apart.drop(base, id.unit)

    def left_out(self, gang: Gang, beyond: Sequence[Pod], *, now: float) -> list[tuple[Pod, float]]:
        """Return the pods without a node for which the gang has no seat, each with the time since when it has had none.
        `beyond`: all pods of the gang without a seat.

        The list is empty while a pod with a seat is being deleted, because a pod without a seat may get that seat. It
        is also empty while the gang lacks pods that must exist before its job is submitted.
        """
        if self._left_out_at:
            for uid in {pod.uid for pod in gang.members} & self._left_out_at.keys():
                del self._left_out_at[uid]
        if not beyond or not gang.is_complete or any(pod.is_deleting for pod in gang.members):
            return []
        left = (pod for pod in beyond if not _holds_something(pod))
        return [(pod, self._left_out_at.setdefault(pod.uid, now)) for pod in left]

    def forget_pod(self, uid: str) -> None:
        """Forget since when the pod with this uid has had no seat in its gang, because the pod is gone."""
        self._left_out_at.pop(uid, None)


def extra_id(base: GangId, pod: Pod) -> GangId:
    """Return the id of a new gang of this pod alone, for a pod that leaves gang `base` because the gang has more pods
    than seats.
    """
    return msgspec.structs.replace(base, unit=extra_unit(pod))


def apart_id(base: GangId, pod: Pod) -> GangId:
    """Return the id of a new gang of this pod alone, for a pod that leaves gang `base` because the gang's job has no
    place for it.
    """
    return msgspec.structs.replace(base, unit=apart_unit(pod))


def _labels(pod: Pod) -> tuple[object, ...]:
    """Return the pod's labels and annotations, which may name its gang, without the annotations that the scheduler
    writes itself while the pod waits.
    """
    own = (names.ANNOTATION_JOB_ID, names.ANNOTATION_ASKED)
    return (pod.labels, {name: text for name, text in pod.annotations.items() if name not in own})


def _holds_something(pod: Pod) -> bool:
    return bool(pod.spec.node_name) or pod.is_finished or pod.is_deleting


class PodsByGang:
    """Knows the gang of each pod that names this scheduler, and the pods of each gang. The watch of these pods keeps it
    up to date (`update`).
    """

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
        self.on_deletion: Callable[[Pod | None, Pod | None], None] = lambda old, new: None
        """Called with each change of a pod that is being deleted, and with each pod that is gone (`new` is None, or
        another pod of this name) before its gang is forgotten.
        """
        self.on_unidentified: Callable[[Pod], None] = lambda pod: None
        """Called with each pod that could not be identified, at each attempt."""
        self.on_relabelled: Callable[[Pod, GangId], None] = lambda pod, id: None
        """Called with each pod without a node whose labels or annotations have changed, and with its gang, in which the
        pod stays although these may name another gang now.
        """
        owners.on_change = self._owner_changed

    # ------------------------------------------------------------- questions

    def find_id(self, pod: Pod) -> GangId | None:
        """Return the id of the pod's gang; None while it is not known to which gang the pod belongs."""
        return self._ids.get(pod.uid)

    def says(self, pod: Pod, id: GangId) -> bool:
        """True if the pod, by its labels, annotations and owners as they are now, belongs to gang `id`. Also True if
        `id` is the gang of this pod alone that was made when the pod left the gang that its labels and owners name.
        """
        said = self._recognition.identify(pod)
        return said is not None and id in (said, extra_id(said, pod), apart_id(said, pod))

    async def wait_for_owners(self) -> None:
        """Wait until the gang of every pod that is there now is known, or it is known why the gang cannot be found.
        Return after `_FIRST_LOOK_S` at the latest.
        """
        there = tuple(self._unidentified)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_LOOK_S):
                while any(uid in self._unidentified and self._owners.is_reading(uid) for uid in there):
                    await self._owners.changed()

    def pods_of(self, id: GangId) -> Sequence[Pod]:
        """Return the pods of a gang that the watch shows, in any order."""
        return self._pods.of(id)

    def has_living(self, owner: Owner) -> bool:
        """True if there is a pod below this owner (or below an object that it owns) that has not ended."""
        pods = (self.find(uid) for uid in self._owners.below(owner))
        return any(pod is not None and not pod.is_finished for pod in pods)

    def find(self, uid: str) -> Pod | None:
        """Return the pod with this uid; None if the watch does not show such a pod."""
        id = self._ids.get(uid)
        return self._pods.get(id, {}).get(uid) if id is not None else self._unidentified.get(uid)

    def on_node(self, node: str) -> Sequence[Pod]:
        """Return the pods bound to a Kubernetes node that name this scheduler, also those whose gang is unknown."""
        return self._by_node.of(node)

    def apart_from(self, id: GangId) -> Sequence[Pod]:
        """Return the living pods that left gang `id` because its job had no place for them, and now are gangs of their
        own.
        """
        return self._solo.apart_from(id, self._pods)

    # --------------------------------------------------------------- changes

    def update(self, old: Pod | None, new: Pod | None) -> None:
        """Take one change of a pod in the watch into account. `old` is None if the pod is new, `new` if it is gone."""
        self._by_node.follow(old, new)
        is_gone = old is not None and (new is None or new.uid != old.uid)
        try:
            if is_gone or (new is not None and new.is_deleting):
                self.on_deletion(old, new)  # while it is known which gang the pod was in
        finally:
            self._follow(None if is_gone else old, new, gone=old if is_gone else None)

    def _follow(self, old: Pod | None, new: Pod | None, *, gone: Pod | None) -> None:
        """Take a change into account that has been reported; `gone`: the pod that is no longer there."""
        if gone is not None:
            self._forget(gone)
        if new is None:
            return
        id = self._ids.get(new.uid)
        if id is None:
            self._identify(new)
            return
        self._pods.put(id, new.uid, new)
        self._wake.doubt(self._solo.base_of(id))
        self._wake.pod_changed(id, old, new)
        if old is not None and not new.spec.node_name and _labels(old) != _labels(new):
            self.on_relabelled(new, id)

    def adopt(self, pod: Pod, id: GangId) -> None:
        """Put a pod into gang `id`, because a job of this gang proves that the pod belongs to it. Until now the pod's
        gang was unknown, or it was another one.
        """
        if pod.uid in self._unidentified:
            self._settle(pod, id)
        elif self._ids.get(pod.uid, id) != id:
            self._move(pod, id)

    def make_solo(self, pod: Pod) -> None:
        """Make a pod a gang of its own, because the job of its gang has no place for it or does not have its node.
        Nothing happens if the pod's gang is unknown, or if the pod is a gang of its own already.
        """
        base = self._ids.get(pod.uid)
        if base is not None and not solo_pod(base):
            self._move(pod, apart_id(base, pod))

    def expect(self, id: GangId) -> None:
        """Record that an earlier leader made the gang `id` for a single pod that had left another gang, because a job
        names it. The pod was not seen yet. Nothing happens if `id` is not such a gang.

        A user can write such a gang into a job's comment. So it counts only if the pod belongs to the other gang by its
        labels and owners.
        """
        if solo_pod(id):
            self._solo.note(id)

    def forget(self, id: GangId) -> None:
        """Forget a gang that is over. Nothing happens if the index still has pods of the gang: it is then forgotten
        when the watch reports that the last of these pods is gone.
        """
        if id not in self._pods:
            self._wake.doubt(self._solo.base_of(id))
            self._solo.forget(id)

    def part(self, gang: Gang, beyond: Sequence[Pod]) -> bool:
        """If pods have had no seat in their gang for `LEFT_OUT_S` seconds, because the gang has more pods than seats,
        make each of them a gang of its own. `beyond`: all pods of the gang without a seat. Return True if pods are left
        that will need this later.
        """
        now = self._clock()
        left_out = self._solo.left_out(gang, beyond, now=now)
        due = [pod for pod, since in left_out if now - since >= LEFT_OUT_S]
        for pod in due[:_MOST_AT_ONCE]:
            self._move(pod, extra_id(gang.id, pod))
        return len(left_out) > len(due) or len(due) > _MOST_AT_ONCE

    def _identify(self, pod: Pod) -> None:
        """Find the gang of a pod that is new, or whose gang was unknown, and put the pod into it. If that is not
        possible yet, the pod is remembered as one without a known gang.
        """
        id = self._solo.settle(self._recognition.identify(pod), pod)
        if id is not None:
            self._settle(pod, id)
        else:
            self._unidentified[pod.uid] = pod
            self.on_unidentified(pod)

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
        """Move a pod from its gang into gang `id` for good, in most cases a gang of this pod alone."""
        base = self._ids[pod.uid]
        pod = self._pods[base][pod.uid]  # as the watch has it, without an assumed binding
        self._pods.drop(base, pod.uid)
        self._solo.leave(base, id)
        self._log.info("pod moved to another gang", pod="/".join(pod.key), gang=str(id), before=str(base))
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

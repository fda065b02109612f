"""Which pods belong to which gang, kept from the watch of the pods that name this scheduler.

A pod is identified once, when it is known what stands above it, and its identity stays: no change of a label or of an
owner moves it to another gang. Until then it is kept aside; it is on its node all the same. Two kinds of pods move,
each to a gang of its own, for good: an extra, for there are more pods than places, and one that is set apart, for the
job of its gang has no room for it. The latter is not missing in its gang as long as it lives.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from sunkpy.core.gang.gang import Gang, extra_pod
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Owner, Pod
from sunkpy.kube.informer import Handler
from sunkpy.scheduler.alone import Alone, apart_id, extra_id
from sunkpy.scheduler.owners import Owners
from sunkpy.scheduler.recognition import Recognition

LEFT_OUT_S: Final = 2.0
"""So long a pod must have had no place to be an extra: the owner that declares more may be seen a little later."""

_FIRST_LOOK_S: Final = 15.0


class Listener(Protocol):
    """Who hears of what happens between pods and gangs; must not block."""

    def owner_changed(self, id: GangId, *, is_wish: bool) -> None:
        """Something above the gang's pods has changed; `is_wish`: somebody wants something else now."""

    def kept_aside(self, pod: Pod) -> None:
        """It is not known yet to which gang the pod belongs; told again when that was looked at in vain."""

    def left_out(self, id: GangId) -> None:
        """A pod of the gang has no place; after `LEFT_OUT_S` the gang should be looked at again."""

    def parted(self, pod: Pod, base: GangId) -> None:
        """The pod is of another gang from now on, mostly an extra, and no member of `base` any more."""


class _ByNode:
    """Pods by the Kubernetes node that they are bound to."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}

    def on(self, node: str) -> Sequence[Pod]:
        return tuple(self._pods.get(node, {}).values())

    def update(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None:
            self._pods.get(old.spec.node_name, {}).pop(old.uid, None)
            if not self._pods.get(old.spec.node_name):
                self._pods.pop(old.spec.node_name, None)
        if new is not None and new.spec.node_name:
            self._pods.setdefault(new.spec.node_name, {})[new.uid] = new


class _ByGang(dict[GangId, dict[str, Pod]]):
    """Pods by uid, for each gang that has any."""

    def note(self, id: GangId, pod: Pod, *, is_there: bool) -> None:
        if is_there:
            self.setdefault(id, {})[pod.uid] = pod
            return
        self.get(id, {}).pop(pod.uid, None)
        if not self.get(id):
            self.pop(id, None)


class MemberIndex:
    """Pods by gang. A handler of the informer."""

    def __init__(
        self, recognition: Recognition, *, owners: Owners, listener: Listener, clock: Callable[[], float]
    ) -> None:
        self._recognition = recognition
        self._owners = owners
        self._listener = listener
        self._clock = clock
        self._handlers: list[Handler[Pod]] = []
        self._pods = _ByGang()
        self._by_node = _ByNode()
        self._ids: dict[str, GangId] = {}
        self._aside: dict[str, Pod] = {}
        self._alone = Alone()
        self._left_out_at: dict[str, float] = {}
        owners.on_change = self._owner_changed

    def add_handler(self, handler: Handler[Pod]) -> None:
        """Hear of each change of a pod that is identified; of one that becomes so, as if it had just come."""
        self._handlers.append(handler)

    # ------------------------------------------------------------- questions

    def id_of(self, pod: Pod) -> GangId:
        """The gang of a pod that the handlers are told of.

        Raises:
            KeyError: it is not identified yet, or not watched.
        """
        return self._ids[pod.uid]

    def find_id(self, pod: Pod) -> GangId | None:
        """The gang of a pod; None while that is not known."""
        return self._ids.get(pod.uid)

    async def resolve(self, pod: Pod) -> GangId | None:
        """The gang of a pod that may not be watched; None when it could not be found out in a few seconds."""
        return self._ids.get(pod.uid) or self._alone.settle(await self._recognition.resolve(pod), pod)

    async def wait_for_owners(self) -> None:
        """Return when it is known of every pod that is there where it belongs, or why that cannot be known; or after a
        while.
        """
        there = tuple(self._aside)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_LOOK_S):
                while any(uid in self._aside and self._owners.is_looking(uid) for uid in there):
                    await self._owners.changed()

    def pods_of(self, id: GangId) -> Sequence[Pod]:
        """The pods of a gang that are there, in no order."""
        return tuple(self._pods.get(id, {}).values())

    def has_left_out(self, id: GangId) -> bool:
        """Some pod of the gang has no place, and will soon be a gang of its own."""
        return any(pod.uid in self._left_out_at and not _holds_something(pod) for pod in self.pods_of(id))

    def has_living(self, owner: Owner) -> bool:
        """Some pod below the object has not ended."""
        pods = (self.find(uid) for uid in self._owners.below(owner))
        return any(pod is not None and not pod.is_finished for pod in pods)

    def find(self, uid: str) -> Pod | None:
        """A pod that is watched."""
        id = self._ids.get(uid)
        return self._pods.get(id, {}).get(uid) if id is not None else self._aside.get(uid)

    def on_node(self, node: str) -> Sequence[Pod]:
        """The pods that are bound to a Kubernetes node, those kept aside included."""
        return self._by_node.on(node)

    def aside(self, uid: str) -> Pod | None:
        """A pod of which it is not known yet where it belongs."""
        return self._aside.get(uid)

    def assemble(self, id: GangId, pods: Sequence[Pod]) -> Gang | None:
        """The gang made of these pods, with what its owners say now; None when there are none.

        Pods for which it has no place become gangs of their own on the way.
        """
        if not pods:
            return None
        gang = self._recognition.assemble(id, pods, apart=self._alone.apart_from(id, self._pods))
        self._part(gang, pods)
        return gang

    # --------------------------------------------------------------- changes

    def update(self, old: Pod | None, new: Pod | None) -> None:
        """Follow one change of the informer's store."""
        if old is not None and new is not None and old.uid != new.uid:
            self.update(old, None)
            old = None
        self._by_node.update(old, new)
        pod = new or old
        assert pod is not None
        if pod.uid not in self._ids:
            self._place(pod, is_there=new is not None)
            return
        self._pods.note(self._ids[pod.uid], pod, is_there=new is not None)
        self._tell(old, new)
        if new is None:
            self._forget(pod)

    def adopt(self, pod: Pod, id: GangId) -> None:
        """The job of a gang proves that this pod is its own, kept aside or taken for another's."""
        if pod.uid in self._aside:
            self._settle(pod, id)
        elif self._ids.get(pod.uid, id) != id:
            self._move(pod, id)

    def set_apart(self, pod: Pod) -> None:
        """The job of its gang has no room for this pod, or does not have its node."""
        base = self._ids.get(pod.uid)
        if base is not None and not extra_pod(base):
            self._move(pod, apart_id(base, pod))

    def note_extras(self, ids: Iterable[GangId]) -> None:
        """Jobs tell which pods have become gangs of their own under an earlier leader.

        A unit may be any text of a user's, so it is believed only of a pod that would be of that gang anyway.
        """
        for id in ids:
            if (uid := extra_pod(id)) and id not in self._alone:
                self._alone.note(id)
                base, pod = self._ids.get(uid, id), self.find(uid)
                if base != id and pod is not None and self._alone.settle(base, pod) == id:
                    self._move(pod, id)

    def forget(self, id: GangId) -> None:
        """The gang is over. Of one that is known by its job alone, no pod will tell."""
        if id not in self._pods:
            self._alone.forget(id)

    def _place(self, pod: Pod, *, is_there: bool) -> None:
        """A pod that is not identified: do it now, keep it aside, or forget it."""
        if not is_there:
            self._forget(pod)
        elif (id := self._alone.settle(self._recognition.identify(pod), pod)) is not None:
            self._settle(pod, id)
        else:
            self._aside[pod.uid] = pod
            self._listener.kept_aside(pod)

    def _settle(self, pod: Pod, id: GangId) -> None:
        self._aside.pop(pod.uid, None)
        self._ids[pod.uid] = id
        self._pods.note(self._ids[pod.uid], pod, is_there=True)
        self._tell(None, pod)

    def _owner_changed(self, uid: str, is_wish: bool) -> None:
        if uid in self._aside:
            self._place(self._aside[uid], is_there=True)
        elif uid in self._ids:
            self._listener.owner_changed(self._ids[uid], is_wish=is_wish)

    def _part(self, gang: Gang, pods: Sequence[Pod]) -> None:
        """Make extras of the pods that have had no place for a while.

        Not while a member is being deleted, for its place may be theirs, and never of a pod that is bound.
        """
        members = {pod.uid for pod in gang.members}
        left = [pod for pod in pods if pod.uid not in members and not _holds_something(pod)]
        for uid in members & self._left_out_at.keys():
            del self._left_out_at[uid]
        if not left or not gang.is_complete or any(pod.is_deleting for pod in gang.members):
            return
        now = self._clock()
        for pod in left:
            since = self._left_out_at.setdefault(pod.uid, now)
            if now - since >= LEFT_OUT_S:
                del self._left_out_at[pod.uid]
                self._move(pod, extra_id(gang.id, pod))
            else:
                self._listener.left_out(gang.id)

    def _move(self, pod: Pod, id: GangId) -> None:
        """To another gang, mostly its own, for the rest of its life."""
        base = self._ids[pod.uid]
        pod = self._pods[base][pod.uid]  # as the watch has it, without what is assumed of it
        self._pods.note(self._ids[pod.uid], pod, is_there=False)
        self._alone.leave(base, id)
        self._listener.parted(pod, base)
        self._settle(pod, id)

    def _tell(self, old: Pod | None, new: Pod | None) -> None:
        for handler in self._handlers:
            handler(old, new)

    def _forget(self, pod: Pod) -> None:
        id = self._ids.get(pod.uid)
        if id is not None:
            self._alone.forget(id)
        for known in (self._ids, self._aside, self._left_out_at):
            known.pop(pod.uid, None)
        self._recognition.forget(pod.uid)


def _holds_something(pod: Pod) -> bool:
    return bool(pod.spec.node_name) or pod.is_finished or pod.is_deleting

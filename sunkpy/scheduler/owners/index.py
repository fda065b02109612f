"""Knows the owners above each pod (its owner, the owner of that owner, and so on), and the pods below each owner.

The chain of owners above a pod is found once, and stays the same afterwards. Each owner in it is used as last seen. An
owner that was deleted stays known as long as there is a pod below it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from sunkpy.core.gang import gang
from sunkpy.core.gang.families import FAMILIES, Families
from sunkpy.core.gang.gang import Link
from sunkpy.core.gang.owners import Above, Absence, climb, explain_absence
from sunkpy.core.model.objects import Key, Kind, Meta, Owner, Pod
from sunkpy.runtime.groups import Groups
from sunkpy.scheduler.owners.watch import POD, OwnerWatches


class OwnerIndex:
    """The owners above each pod for which somebody has asked with `of`: its owner, the owner of that owner, and
    so on.
    """

    def __init__(self, watches: OwnerWatches, families: Families = FAMILIES) -> None:
        self._watches = watches
        self._families = families
        self._above: dict[str, Above] = {}
        self._below: Groups[Link, str, str] = Groups()
        self._links: Groups[tuple[Kind, str], Link, Link] = Groups()
        self._of_kind: Groups[Kind, Link, Link] = Groups()
        self._last: dict[Link, Owner] = {}
        self._change = asyncio.Event()
        self.on_change: Callable[[str, bool], None] = lambda uid, is_wish: None
        """Called when an owner of a pod has changed: with the pod's uid, and with True if more than the owner's status
        has changed.
        """
        watches.add_listener(self._changed)
        watches.in_use = lambda: tuple(self._of_kind)
        watches.is_needed = lambda kind, name: (kind, name) in self._links

    def of(self, pod: Pod) -> gang.Owners | None:
        """Return the owners above a pod, as last seen; None as long as not all of them that are needed are known."""
        above = self._above.get(pod.uid)
        if above is None or above.waits_for is not None:
            above = self._climb(pod)
        if above.waits_for is not None:
            return None
        return tuple(self._newest(link) for link in above.links)

    def is_reading(self, uid: str) -> bool:
        """True if owners above the pod are not known yet, but are being looked for, and no person has to do anything.
        False also if the apiserver does not serve the kind of such an owner.
        """
        above = self._above.get(uid)
        if above is None or above.waits_for is None or self._watches.is_missing(above.waits_for.kind):
            return False
        return above.absence is Absence.UNKNOWN

    async def changed(self) -> None:
        """Return as soon as an owner above some pod has changed or has become known."""
        await self._change.wait()

    def why_unknown(self, uid: str) -> str:
        """Return, in words for people, why the owners above the pod with this uid are not known; empty text if they are
        known.
        """
        above = self._above.get(uid)
        if above is None or above.waits_for is None:
            return ""
        return explain_absence(above, unreadable=self._watches.why_unreadable(above.waits_for))

    def below(self, owner: Owner) -> set[str]:
        """Return the uids of the known pods below an owner, also of pods below objects that it owns."""
        links = (link for link in self._links.of((owner.is_a, owner.name)) if link.leads_to(owner))
        return {uid for link in links if link.namespace == owner.key[0] for uid in self._below[link]}

    def forget(self, uid: str) -> None:
        """Forget the pod with this uid, because it is gone, and owners below which no known pod is left."""
        above = self._above.pop(uid, None)
        if above is not None:
            self._let_go(uid, above.links)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Take one change of a pod in the watch into account, because a pod may be the owner of other pods. `old` is
        None if the pod is new, `new` if it is gone.
        """
        changed = new or old
        if changed is None or (old is not None and new is not None and _bare(old) == _bare(new)):
            return
        for link in self._links.of((POD, changed.name)):
            if link.namespace == changed.metadata.namespace:
                for uid in self._below.of(link):
                    self.on_change(uid, False)

    def _climb(self, pod: Pod) -> Above:
        before = self._above.get(pod.uid)
        above = climb(pod, self._families, self._watches.look_up)
        self._above[pod.uid] = above
        for link in above.links:
            self._below.put(link, pod.uid, pod.uid)
            self._links.put((link.kind, link.name), link, link)
            self._of_kind.put(link.kind, link, link)
        for link, owner in zip(above.links, above.owners, strict=False):
            self._last[link] = owner
        if before is not None:
            self._let_go(pod.uid, set(before.links) - set(above.links))
        return above

    def _let_go(self, uid: str, links: Iterable[Link]) -> None:
        """Record that the pod with this uid is not below these objects any more. An object without a known pod below it
        is forgotten.
        """
        for link in links:
            self._below.drop(link, uid)
            if link not in self._below:
                self._last.pop(link, None)
                self._watches.forget(link)
                self._links.drop((link.kind, link.name), link)
                self._of_kind.drop(link.kind, link)

    def _newest(self, link: Link) -> Owner:
        return self._watches.seen(link) or self._last[link]

    def _changed(self, kind: Kind, key: Key | None) -> None:
        # Whoever makes pods may name thousands of kinds, and all of them may change at the same time.
        links = self._of_kind.of(kind) if key is None else self._links.of((kind, key[1]))
        if not links:
            return
        for link in links:
            owner, before = self._watches.seen(link), self._last.get(link)
            if owner is not None:
                self._last[link] = owner
            is_wish = owner is not None and before is not None and _wishes(owner) != _wishes(before)
            for uid in self._below.of(link):
                self.on_change(uid, is_wish)
        self._change.set()
        self._change = asyncio.Event()


def _bare(pod: Pod) -> Meta:
    """Return the part of a pod that matters for pods of which it is the owner: its metadata, without the
    resourceVersion.
    """
    return msgspec.structs.replace(pod.metadata, resource_version="")


def _wishes(owner: Owner) -> tuple[object, ...]:
    """Return the parts of an owner that change if somebody changes what the owner asks for. The spec of most kinds is
    not kept, but the `generation` changes with the spec.
    """
    return (owner.annotations, owner.metadata.generation, owner.spec)

"""Watches the owners of pods: one watch for each kind, from its first pod until no pod has needed it for a while.

The apiserver says which kinds exist (`kube.kinds`), so a site's own CRDs are watched like other kinds. Of most kinds
only metadata is kept. Of kinds whose spec decides about pods, the whole of objects above our pods is kept
(`owners.wholes`).

While a kind is not served, the objects that its watch has shown stay known. When a kind is served in another version,
its objects count as last seen (`owners.index`) until they are listed in that version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from sunkpy.core.gang.gang import Link
from sunkpy.core.gang.owners import Absence
from sunkpy.core.model.objects import Key, Kind, KubeObject, OddOwner, Owner, Pod
from sunkpy.kube import errors
from sunkpy.kube.bounds import bounded
from sunkpy.kube.client import Kube
from sunkpy.kube.decoding import Unreadable
from sunkpy.kube.discovery import Resource
from sunkpy.kube.informer import Informer, Together
from sunkpy.kube.kinds import KIND_TIMES, KindTimes, OwnerKinds
from sunkpy.runtime.queue import QueueMetrics, WorkQueue, run_workers
from sunkpy.scheduler.owners.wholes import CutOwner, Wholes

POD: Final = Kind(group="", kind="Pod")
_PODS: Final = Resource(kind=POD, api_version="v1", plural="pods", namespaced=True)
_SYNC_AGAIN_S = 0.2
_MOST_STATUS_BYTES: Final = 65536
_NOTHING: Final = msgspec.Raw(b"{}")

OnUnreadable = Callable[[str, KubeObject, str], None]
"""Called with the kind of an object that could not be read, the object as far as known, and the reason; must not block.
"""

OwnerListener = Callable[[Kind, Key | None], None]
"""Called with the kind and key of an object that came, changed or went; the key is None if any of the kind may have."""


@dataclass(slots=True, eq=False)
class _KindWatch:
    """The watch of a kind, at the API path (`resource`) that serves it."""

    resource: Resource
    informer: Informer[Owner]
    task: asyncio.Task[None] | None = None

    def end(self) -> None:
        """Stop a watch that no pod needs, and drop its objects at once: references may outlive the task for long."""
        if self.task is not None:
            self.task.cancel()
            self.task.add_done_callback(lambda _: self.informer.clear())

    def get(self, link: Link) -> Owner | None:
        """Return an object as the watch last saw it; None if it is unknown."""
        return self.informer.get(link.namespace if self.resource.namespaced else "", link.name)


class OwnerWatches:
    """Finds owners by kind and name in watches. `reads`: kinds of which more than metadata is read."""

    def __init__(
        self,
        kube: Kube,
        *,
        reads: Container[Kind],
        pods: Together[Pod],
        clock: Callable[[], float],
        on_unreadable: OnUnreadable,
        metrics: QueueMetrics | None = None,
        times: KindTimes = KIND_TIMES,
    ) -> None:
        self._kube = kube
        self._times = times
        self._on_unreadable = on_unreadable
        self._reads = reads
        self._pods = pods
        self._kinds = OwnerKinds(kube, clock=clock, on_change=self._kind_changed, expected=reads, times=times)
        self._metrics = metrics
        self._watches: dict[Kind, _KindWatch] = {}
        self._to_watch: asyncio.Queue[Kind] = asyncio.Queue()
        self._to_read: WorkQueue[Link] = WorkQueue("owners")
        self._read: dict[Link, Owner | Absence] = {}
        self._asked_for: set[Link] = set()
        self._listeners: list[OwnerListener] = []
        self._wholes = Wholes(lambda kind, key: self.is_needed(kind, key[1]))
        self.in_use: Callable[[], Iterable[Kind]] = tuple
        """Returns the kinds of owners above known pods; must not block."""
        self.is_needed: Callable[[Kind, str], bool] = lambda kind, name: False
        """Returns whether an owner of this kind and name is above a known pod; must not block."""

    def add_listener(self, listener: OwnerListener) -> None:
        """Call a listener with each change; it must not block."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Run the watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._kinds.run())
            group.create_task(self._keep_forgetting())
            group.create_task(run_workers(self._to_read, self._read_one, workers=2, metrics=self._metrics))
            while True:
                kind = await self._to_watch.get()
                if (watch := self._watches.get(kind)) is not None:
                    watch.task = watch.task or group.create_task(watch.informer.run())

    def shown(self, link: Link) -> Owner | None:
        """Return the object as a watch last saw it, perhaps with its metadata alone; None if no watch shows it."""
        if link.kind == POD:
            pod = self._pods.get(link.namespace, link.name)
            return _pod_as_owner(pod) if pod is not None and link.leads_to(pod) else None
        watch = self._watches.get(link.kind)
        owner = watch.get(link) if watch is not None else None
        return owner if owner is not None and link.leads_to(owner) else None

    def seen(self, link: Link) -> Owner | None:
        """Return the object as a watch last saw it; None if only its metadata is kept, or no watch shows it."""
        owner = self.shown(link)
        return self._wholes.of(owner) if isinstance(owner, CutOwner) else owner

    async def read(self, link: Link) -> Owner | None:
        """Return the whole of an object that a watch shows. If only its metadata is kept, the apiserver is asked, and
        the answer is not kept.

        Raises:
            KubeError: the apiserver could not be asked.
        """
        owner = self.shown(link)
        if not isinstance(owner, CutOwner):
            return owner
        try:
            return self._wholes.of(owner) or await self._kube.get(self.path(owner), Owner)
        except errors.NotFound:
            return None

    def look(self, link: Link) -> Owner | Absence:
        """Return the object, or why it is absent. Listeners are called when an object that is unknown becomes known."""
        owner = self.seen(link)
        if owner is not None:
            return owner
        if link.kind != POD:
            self._kinds.follow(link.kind)
            if self._kinds.problem(link.kind):
                return Absence.UNREADABLE
            if self.is_missing(link.kind):
                return Absence.UNKNOWN  # listeners are called when the kind is served
        if link in self._read:
            return self._read[link]
        self._asked_for.add(link)
        if self.shown(link) is not None:
            self._to_read.add(link)
        else:
            self._to_read.add_after(link, self._times.patience_s)
        return Absence.UNKNOWN

    def follow(self, kind: Kind) -> None:
        """Watch a kind from now on for good, even while no known pod has an owner of it."""
        self._kinds.follow(kind, for_good=True)

    def path(self, owner: Owner) -> str:
        """Return the API path of an object that a watch has shown."""
        return self._watches[owner.is_a].resource.path(*owner.key)

    def is_missing(self, kind: Kind) -> bool:
        """True if the apiserver does not serve the kind now, so that its objects are unknown."""
        return self._kinds.is_missing(kind)

    def why_unreadable(self, link: Link) -> str:
        """Return what a person has to change before the object, or any of its kind, can be read; empty if nothing."""
        owner = self.shown(link)
        return f"that cannot be read: {owner.why}" if isinstance(owner, OddOwner) else self._kinds.problem(link.kind)

    def forget(self, link: Link) -> None:
        """Forget what was read of an object that has no pod below it any more."""
        self._read.pop(link, None)
        self._asked_for.discard(link)
        if (owner := self.shown(link)) is not None:
            self._wholes.let_go(link.kind, owner.key)

    def _kind_changed(self, kind: Kind) -> None:
        resource, watch = self._kinds.where(kind), self._watches.get(kind)
        if resource is not None and (watch is None or watch.resource != resource):
            if watch is not None:
                watch.end()
            self._watches[kind] = _KindWatch(resource, self._informer(resource))
            self._to_watch.put_nowait(kind)
        self._tell(kind, None)

    async def _keep_forgetting(self) -> None:
        while True:
            await asyncio.sleep(self._times.dropped_each_s)
            for kind in self._kinds.drop_unneeded(self.in_use()):
                # As if no pod had ever needed the kind: the next pod that does starts its watch again.
                if (watch := self._watches.pop(kind, None)) is not None:
                    watch.end()
                self._read = {link: found for link, found in self._read.items() if link.kind != kind}

    def _informer(self, resource: Resource) -> Informer[Owner]:
        kind = resource.kind
        informer = Informer(
            self._kube,
            resource.collection,
            Owner,
            keep=lambda owner: self._stored(owner, resource),
            rescue=lambda found: self._kept(_rescued(found), resource),
            tell=partial(self._on_unreadable, kind.kind),
            until_served=partial(self._kinds.until_served, kind),
            are_large=True,
        )
        informer.add_handler(partial(self._changed, kind))
        return informer

    def _stored(self, owner: Owner, resource: Resource) -> Owner:
        kept = self._kept(owner, resource)
        return self._wholes.cut(kept) if resource.kind in self._reads else kept

    def _kept(self, owner: Owner, resource: Resource) -> Owner:
        """Return the object without what takes memory, and with its kind, which items of a list do not carry.

        Its raw parts are copied, because they would keep the whole answer of the apiserver in memory.
        """
        is_read = resource.kind in self._reads
        return msgspec.structs.replace(
            bounded(owner),
            api_version=resource.api_version,
            kind=resource.kind.kind,
            spec=owner.spec.copy() if is_read else _NOTHING,
            status=owner.status.copy()
            if is_read and memoryview(owner.status).nbytes <= _MOST_STATUS_BYTES
            else _NOTHING,
        )

    def _changed(self, kind: Kind, old: Owner | None, new: Owner | None) -> None:
        known = new or old
        if known is not None and new is None:
            self._wholes.forget(kind, known.key)
        if known is not None and (old is None or new is None or _matter(old) != _matter(new)):
            self._tell(kind, known.key)

    def _tell(self, kind: Kind, key: Key | None) -> None:
        for listener in self._listeners:
            listener(kind, key)

    async def _read_one(self, link: Link) -> float | None:
        """Ask the apiserver for an object that no watch has shown in time, or of which only metadata is kept.

        Raises:
            KubeError: the apiserver could not be asked.
        """
        if link not in self._asked_for or self.seen(link) is not None or link in self._read:
            return None
        if self.is_missing(link.kind) or self._kinds.problem(link.kind):
            return None  # listeners are called when that changes
        if link.kind != POD and not self._kinds.follows(link.kind):
            return None  # no pod needs it any more
        watch = self._watches.get(link.kind)
        if link.kind != POD and (watch is None or not watch.informer.synced.is_set()):
            return _SYNC_AGAIN_S
        resource = watch.resource if watch is not None else _PODS
        try:
            found = await self._kube.get(resource.path(link.namespace, link.name), Owner)
        except errors.NotServed:
            self._kinds.doubt(link.kind)  # the kind may not be served yet; that does not mean that the object is gone
            return _SYNC_AGAIN_S
        except errors.NotFound:
            found = None
        except errors.UnreadableAnswer:
            return _SYNC_AGAIN_S  # the watch rescues its metadata
        kept = self._kept(found, resource) if found is not None and link.leads_to(found) else None
        self._read[link] = kept if kept is not None else Absence.GONE
        self._tell(link.kind, (link.namespace, link.name))
        return None


def _rescued(found: Unreadable) -> Owner:
    """Return an unreadable object as an owner with its metadata alone, which is enough for most kinds."""
    return OddOwner(metadata=found.object.metadata, why=found.why)


def _pod_as_owner(pod: Pod) -> Owner:
    return Owner(api_version="v1", kind=POD.kind, metadata=pod.metadata)


def _matter(owner: Owner) -> tuple[object, ...]:
    """Return all of an owner except its resourceVersion, which also changes with fields that are not kept."""
    odd = owner.why if isinstance(owner, OddOwner) else ""
    rest = owner.digest if isinstance(owner, CutOwner) else 0
    return (msgspec.structs.replace(owner.metadata, resource_version=""), rest, odd)

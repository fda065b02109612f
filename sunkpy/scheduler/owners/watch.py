"""Watches of the objects that stand above pods: one for each kind, from the first pod below it on, until no pod has
needed it for a while.

Kinds are found by asking the apiserver (`kube.kinds`), so those of people's own CRDs are watched like
the others. What nobody reads is not kept: of most kinds metadata is enough, and of the others the whole of those above
our pods (`owners.wholes`).

What a watch has shown stays while its kind is not served. When the kind is served in another version, the objects as
last seen count (`owners.index`) until it is listed there.
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
"""Called with the kind of an object that could not be read, what is known of it, and why; must not block."""

OwnerListener = Callable[[Kind, Key | None], None]
"""Called with kind and key of an object that came, changed or went; None when that may be any of the kind."""


@dataclass(slots=True, eq=False)
class _KindWatch:
    """The watch of a kind in the place where it was found."""

    resource: Resource
    informer: Informer[Owner]
    task: asyncio.Task[None] | None = None

    def end(self) -> None:
        """Nobody needs it any more. What it shows is let go of at once: references may outlive a task for long."""
        if self.task is not None:
            self.task.cancel()
            self.task.add_done_callback(lambda _: self.informer.clear())

    def get(self, link: Link) -> Owner | None:
        """The object as last seen."""
        return self.informer.get(link.namespace if self.resource.namespaced else "", link.name)


class OwnerWatches:
    """Objects by kind and name, as far as they are known. `reads`: kinds of which more than metadata is read."""

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
        """Tells which kinds stand above pods that are known; must not block."""
        self.is_needed: Callable[[Kind, str], bool] = lambda kind, name: False
        """Tells whether objects of this kind and name stand above pods that are known; must not block."""

    def add_listener(self, listener: OwnerListener) -> None:
        """Hear of each change; must not block."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._kinds.run())
            group.create_task(self._keep_forgetting())
            group.create_task(run_workers(self._to_read, self._read_one, workers=2, metrics=self._metrics))
            while True:
                kind = await self._to_watch.get()
                if (watch := self._watches.get(kind)) is not None:
                    watch.task = watch.task or group.create_task(watch.informer.run())

    def shown(self, link: Link) -> Owner | None:
        """The object as last seen in a watch; of a kind that is read this may be its metadata alone."""
        if link.kind == POD:
            pod = self._pods.get(link.namespace, link.name)
            return _pod_as_owner(pod) if pod is not None and link.leads_to(pod) else None
        watch = self._watches.get(link.kind)
        owner = watch.get(link) if watch is not None else None
        return owner if owner is not None and link.leads_to(owner) else None

    def seen(self, link: Link) -> Owner | None:
        """The object as last seen in a watch, as far as all of it is at hand."""
        owner = self.shown(link)
        return self._wholes.of(owner) if isinstance(owner, CutOwner) else owner

    async def read(self, link: Link) -> Owner | None:
        """The whole of an object that a watch shows. If it is not at hand, the apiserver is asked, and the answer is
        not kept.

        Raises:
            KubeError: it could not be asked for.
        """
        owner = self.shown(link)
        if not isinstance(owner, CutOwner):
            return owner
        try:
            return self._wholes.of(owner) or await self._kube.get(self.path(owner), Owner)
        except errors.NotFound:
            return None

    def look(self, link: Link) -> Owner | Absence:
        """The object, or why it is not at hand; listeners are called when one that is not known yet becomes known."""
        owner = self.seen(link)
        if owner is not None:
            return owner
        if link.kind != POD:
            self._kinds.follow(link.kind)
            if self._kinds.problem(link.kind):
                return Absence.UNREADABLE
            if self.is_missing(link.kind):
                return Absence.UNKNOWN  # listeners are called when it is there
        if link in self._read:
            return self._read[link]
        self._asked_for.add(link)
        if self.shown(link) is not None:
            self._to_read.add(link)
        else:
            self._to_read.add_after(link, self._times.patience_s)
        return Absence.UNKNOWN

    def follow(self, kind: Kind) -> None:
        """Watch a kind, from now on and for good, though no pod is known to be below it."""
        self._kinds.follow(kind, for_good=True)

    def path(self, owner: Owner) -> str:
        """The path of an object that a watch has shown."""
        return self._watches[owner.is_a].resource.path(*owner.key)

    def is_missing(self, kind: Kind) -> bool:
        """The apiserver does not serve the kind now: nobody knows which objects of it there are."""
        return self._kinds.is_missing(kind)

    def why_unreadable(self, link: Link) -> str:
        """What a person has to change before the object, or any object of its kind, can be read."""
        owner = self.shown(link)
        return f"that cannot be read: {owner.why}" if isinstance(owner, OddOwner) else self._kinds.problem(link.kind)

    def forget(self, link: Link) -> None:
        """Forget an object, because no pod is below it any more."""
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
                # As if no pod had ever needed it: the next one that does finds its owner as the first one did.
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
        """Without what takes room, and with the kind, which items of lists do not bear.

        Its raw parts are copied: they would keep the whole answer alive in which they came.
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
        """Ask for one object that no watch has shown, though it is time, or not all of it.

        Raises:
            KubeError: it could not be asked for.
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
            self._kinds.doubt(link.kind)  # an apiserver that does not know the kind yet says nothing of its objects
            return _SYNC_AGAIN_S
        except errors.NotFound:
            found = None
        except errors.UnreadableAnswer:
            return _SYNC_AGAIN_S  # the watch will say what is known of it
        kept = self._kept(found, resource) if found is not None and link.leads_to(found) else None
        self._read[link] = kept if kept is not None else Absence.GONE
        self._tell(link.kind, (link.namespace, link.name))
        return None


def _rescued(found: Unreadable) -> Owner:
    """The metadata of the object, which is enough for most kinds."""
    return OddOwner(metadata=found.object.metadata, why=found.why)


def _pod_as_owner(pod: Pod) -> Owner:
    return Owner(api_version="v1", kind=POD.kind, metadata=pod.metadata)


def _matter(owner: Owner) -> tuple[object, ...]:
    """All of it but its version, which changes with fields that are not kept."""
    odd = owner.why if isinstance(owner, OddOwner) else ""
    rest = owner.digest if isinstance(owner, CutOwner) else 0
    return (msgspec.structs.replace(owner.metadata, resource_version=""), rest, odd)

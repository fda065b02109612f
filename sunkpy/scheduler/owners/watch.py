"""Watches the owners of pods, with one watch for each kind. A kind is watched from the time when a pod first needs it
until no pod has needed it for a while.

The apiserver says which kinds exist (`kube.kinds`), so custom resources of a site are watched like other kinds. Of most
kinds only the metadata of objects is kept. If the spec of a kind decides about its pods, the whole object is kept for
objects that have pods of this scheduler below them (`owners.wholes`).

While the apiserver does not serve a kind, the objects that its watch has shown stay known. If a kind is served in
another version, its objects count as last seen (`owners.index`) until they have been listed in that version.
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
"""A function that is called with the kind of an object that could not be read, the object as far as known, and the
reason. It must not block.
"""

OwnerListener = Callable[[Kind, Key | None], None]
"""A function that is called with the kind and key of an object that came, changed or went. The key is None if any
object of the kind may have changed.
"""


@dataclass(slots=True, eq=False)
class _KindWatch:
    """The watch of one kind of owners. `resource`: the API path at which the apiserver serves the kind."""

    resource: Resource
    informer: Informer[Owner]
    task: asyncio.Task[None] | None = None

    def end(self) -> None:
        """Stop this watch, because no pod needs it or another one replaces it. Its objects are dropped as soon as the
        task has ended, because something may refer to the task for much longer.
        """
        if self.task is not None:
            self.task.cancel()
            self.task.add_done_callback(lambda _: self.informer.clear())

    def get(self, link: Link) -> Owner | None:
        """Return an object as this watch last saw it; None if the watch does not show it."""
        return self.informer.get(link.namespace if self.resource.namespaced else "", link.name)


class OwnerWatches:
    """Finds owners of pods, by kind and name, in watches. `reads`: the kinds whose objects are needed with spec and
    status; of all other kinds only metadata is kept.
    """

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
        """Have `listener` called with each change of an owner; it must not block."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Run the watches of owners until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._kinds.run())
            group.create_task(self._keep_forgetting())
            group.create_task(run_workers(self._to_read, self._read_one, workers=2, metrics=self._metrics))
            while True:
                kind = await self._to_watch.get()
                if (watch := self._watches.get(kind)) is not None:
                    watch.task = watch.task or group.create_task(watch.informer.run())

    def shown(self, link: Link) -> Owner | None:
        """Return the object as a watch last saw it; None if no watch shows it. It may lack spec and status."""
        if link.kind == POD:
            pod = self._pods.get(link.namespace, link.name)
            return _pod_as_owner(pod) if pod is not None and link.leads_to(pod) else None
        watch = self._watches.get(link.kind)
        owner = watch.get(link) if watch is not None else None
        return owner if owner is not None and link.leads_to(owner) else None

    def seen(self, link: Link) -> Owner | None:
        """Return the object as a watch last saw it. None if no watch shows it, or if its spec is needed but is not
        stored, so that the apiserver would have to be asked.
        """
        owner = self.shown(link)
        return self._wholes.of(owner) if isinstance(owner, CutOwner) else owner

    async def read(self, link: Link) -> Owner | None:
        """Return an object that a watch shows; None if no watch shows it, or it is gone. If its kind is needed with
        spec and status, and they are not stored, the apiserver is asked; this answer is not stored.

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

    def look_up(self, link: Link) -> Owner | Absence:
        """Return the object, or why it is absent. If it is not known yet, it is looked for, and the listeners are
        called when it becomes known.
        """
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
        """Watch a kind from now on and never stop, even while no known pod has an owner of this kind."""
        self._kinds.follow(kind, for_good=True)

    def path(self, owner: Owner) -> str:
        """Return the API path of an object that a watch has shown."""
        return self._watches[owner.is_a].resource.path(*owner.key)

    def is_missing(self, kind: Kind) -> bool:
        """True if the apiserver does not serve this kind now. Then it is not known whether objects of the kind
        exist.
        """
        return self._kinds.is_missing(kind)

    def why_unreadable(self, link: Link) -> str:
        """Return in words what keeps the scheduler from reading this object or its whole kind, which a person has to
        change; empty text if nothing does.
        """
        owner = self.shown(link)
        return f"that cannot be read: {owner.why}" if isinstance(owner, OddOwner) else self._kinds.problem(link.kind)

    def forget(self, link: Link) -> None:
        """Forget what was read of an object, because no known pod is below it any more."""
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
            dropped = frozenset(self._kinds.drop_unneeded(self.in_use()))
            # As if no pod had ever needed the kinds: the next pod that does starts their watches again.
            for watch in [self._watches.pop(kind) for kind in dropped & self._watches.keys()]:
                watch.end()
            if dropped:
                self._read = {link: found for link, found in self._read.items() if link.kind not in dropped}

    def _informer(self, resource: Resource) -> Informer[Owner]:
        kind = resource.kind
        informer = Informer(
            self._kube,
            resource.collection,
            Owner,
            keep=lambda owner: self._stored(owner, resource),
            rescue=lambda found: self._reduced(_rescued(found), resource),
            tell=partial(self._on_unreadable, kind.kind),
            until_served=partial(self._kinds.until_served, kind),
            are_large=True,
        )
        informer.add_handler(partial(self._changed, kind))
        return informer

    def _stored(self, owner: Owner, resource: Resource) -> Owner:
        kept = self._reduced(owner, resource)
        return self._wholes.cut(kept) if resource.kind in self._reads else kept

    def _reduced(self, owner: Owner, resource: Resource) -> Owner:
        """Return the object as it is stored: without the parts that take much memory, and with its kind, which the
        items of a list do not contain.

        The undecoded parts of the object are copied. If they were not, they would keep the whole answer of the
        apiserver in memory.
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
        """Read one object from the apiserver and remember it (or that it is gone), because somebody has asked for it
        and no watch has shown it in time, or its spec is not stored. Return after how many seconds to try again; None
        if that is not necessary.

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
        kept = self._reduced(found, resource) if found is not None and link.leads_to(found) else None
        self._read[link] = kept if kept is not None else Absence.GONE
        self._tell(link.kind, (link.namespace, link.name))
        return None


def _rescued(found: Unreadable) -> Owner:
    """Return an object that could not be decoded as an owner that has only metadata, which is enough for most kinds."""
    return OddOwner(metadata=found.object.metadata, why=found.why)


def _pod_as_owner(pod: Pod) -> Owner:
    return Owner(api_version="v1", kind=POD.kind, metadata=pod.metadata)


def _matter(owner: Owner) -> tuple[object, ...]:
    """Return the parts of an owner whose change is reported to listeners. The resourceVersion is not among them,
    because it also changes with fields that are not kept.
    """
    odd = owner.why if isinstance(owner, OddOwner) else ""
    rest = owner.digest if isinstance(owner, CutOwner) else 0
    return (msgspec.structs.replace(owner.metadata, resource_version=""), rest, odd)

"""Watches of the objects that stand above pods: one for each kind, from the first pod below it on.

Kinds are found by asking the apiserver, so those of people's own CRDs are watched like the others, and a CRD that is
made later is found later. What nobody reads is not kept: of most kinds metadata is enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec
import structlog

from sunkpy.core.gang.owners import Absence, Link
from sunkpy.core.model.objects import Key, Kind, KubeObject, OddOwner, Owner, Pod
from sunkpy.kube import errors
from sunkpy.kube.client import Kube
from sunkpy.kube.decoding import Unreadable
from sunkpy.kube.discovery import Discovery, Resource
from sunkpy.kube.informer import Informer, Together
from sunkpy.runtime.queue import QueueMetrics, WorkQueue, run_workers

POD: Final = Kind(group="", kind="Pod")
PATIENCE_S = 1.0
"""A pod may be seen before its owner, through another watch: so long before the owner is asked for by itself."""

AGAIN_S = 15.0
"""How often a kind that cannot be read is tried again."""

_SYNC_AGAIN_S = 0.2
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MOST_STATUS_BYTES: Final = 65536
_NOTHING: Final = msgspec.Raw(b"{}")

NoteOdd = Callable[[str, KubeObject, str], None]
"""Called with the kind of an object that could not be read, what is known of it, and why; must not block."""

Changed = Callable[[Kind, Key | None], None]
"""Called with kind and key of an object that came, changed or went; None when that may be any of the kind."""


@dataclass(slots=True, eq=False)
class _KindWatch:
    """The watch of a kind, once it is found and may be read; `problem` says what is in the way."""

    resource: Resource | None = None
    informer: Informer[Owner] | None = None
    problem: str = ""


class _Unreadable(Exception):
    """No object of the kind can be read, until a person changes something; the text says what."""


class OwnerWatches:
    """Objects by kind and name, as far as they are known. `reads`: kinds of which more than metadata is kept."""

    def __init__(
        self,
        kube: Kube,
        *,
        reads: Container[Kind],
        pods: Together[Pod],
        clock: Callable[[], float],
        note_odd: NoteOdd,
        metrics: QueueMetrics | None = None,
    ) -> None:
        self._kube = kube
        self._note_odd = note_odd
        self._reads = reads
        self._pods = pods
        self._discovery = Discovery(kube, clock)
        self._metrics = metrics
        self._watches: dict[Kind, _KindWatch] = {}
        self._to_follow: asyncio.Queue[Kind] = asyncio.Queue()
        self._to_read: WorkQueue[Link] = WorkQueue("owners")
        self._read: dict[Link, Owner | Absence] = {}
        self._log = structlog.get_logger("owners")
        self._listeners: list[Changed] = []

    def add_listener(self, listener: Changed) -> None:
        """Hear of each change; must not block."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workers(self._to_read, self._read_one, workers=2, metrics=self._metrics))
            while True:
                group.create_task(self._follow(await self._to_follow.get()))

    def seen(self, link: Link) -> Owner | None:
        """The object as last seen in a watch."""
        if link.kind == POD:
            pod = self._pods.get(link.namespace, link.name)
            return _pod_as_owner(pod) if pod is not None and link.leads_to(pod) else None
        watch = self._watches.get(link.kind)
        if watch is None or watch.informer is None or watch.resource is None:
            return None
        owner = watch.informer.get(link.namespace if watch.resource.namespaced else "", link.name)
        return owner if owner is not None and link.leads_to(owner) else None

    def look(self, link: Link) -> Owner | Absence:
        """The object, or why it is not at hand; what is not known yet will be, and listeners are told."""
        owner = self.seen(link)
        if owner is not None:
            return owner
        if link.kind != POD and self._watch(link.kind).problem:
            return Absence.UNREADABLE
        if link in self._read:
            return self._read[link]
        self._to_read.add_after(link, PATIENCE_S)
        return Absence.UNKNOWN

    def follow(self, kind: Kind) -> None:
        """Watch a kind though no pod is known to be below it."""
        self._watch(kind)

    def path(self, owner: Owner) -> str:
        """Where an object is that a watch has shown."""
        resource = self._watch(owner.is_a).resource
        assert resource is not None
        return resource.path(*owner.key)

    def why_unreadable(self, link: Link) -> str:
        """What a person has to change before the object, or any of its kind, can be read."""
        owner = self.seen(link)
        return f"that cannot be read: {owner.why}" if isinstance(owner, OddOwner) else self._watch(link.kind).problem

    def forget(self, link: Link) -> None:
        """No pod is below it any more."""
        self._read.pop(link, None)

    def _watch(self, kind: Kind) -> _KindWatch:
        if kind not in self._watches:
            self._watches[kind] = _KindWatch()
            self._to_follow.put_nowait(kind)
        return self._watches[kind]

    async def _follow(self, kind: Kind) -> None:
        watch = self._watch(kind)
        while True:
            try:
                resource = await self._find(kind)
                break
            except _Unreadable as why:
                if watch.problem != str(why):
                    self._log.warning("kind cannot be read", kind=kind.kind, group=kind.group, problem=str(why))
                    watch.problem = str(why)
                    self._tell(kind, None)
            except (errors.KubeError, msgspec.DecodeError) as error:
                self._log.warning("kind not found out", kind=kind.kind, group=kind.group, error=str(error))
            await asyncio.sleep(AGAIN_S)
        watch.resource, watch.problem = resource, ""
        watch.informer = Informer(
            self._kube,
            resource.collection,
            Owner,
            keep=lambda owner: self._kept(owner, resource),
            rescue=lambda found: self._kept(_rescued(found), resource),
            tell=partial(self._note_odd, kind.kind),
        )
        watch.informer.add_handler(lambda old, new: self._changed(kind, old, new))
        self._tell(kind, None)
        await watch.informer.run()

    async def _find(self, kind: Kind) -> Resource:
        """Where the kind is, once it is proved that it may be read.

        Raises:
            _Unreadable: there is no such kind, or no right.
            KubeError: the apiserver could not be asked.
        """
        resource = await self._discovery.find(kind)
        if resource is None:
            name = f"{kind.kind} of {kind.group}" if kind.group else kind.kind
            raise _Unreadable(f"the apiserver knows no kind {name}: its CRD is not installed")
        try:
            await self._kube.request("GET", resource.collection, params={"limit": "1"})
        except errors.Forbidden as error:
            raise _Unreadable(f"the scheduler may not read {resource.title}: {error.message}") from error
        except errors.NotFound:
            self._discovery.forget(kind)
            raise
        return resource

    def _kept(self, owner: Owner, resource: Resource) -> Owner:
        """Without what takes room, and with the kind, which items of lists do not bear.

        Its raw parts are copied: they would keep the whole answer alive in which they came.
        """
        is_read = resource.kind in self._reads
        annotations = {key: value for key, value in owner.annotations.items() if key != _LAST_APPLIED}
        return msgspec.structs.replace(
            owner,
            api_version=resource.api_version,
            kind=resource.kind.kind,
            metadata=msgspec.structs.replace(owner.metadata, annotations=annotations),
            spec=owner.spec.copy() if is_read else _NOTHING,
            status=owner.status.copy()
            if is_read and memoryview(owner.status).nbytes <= _MOST_STATUS_BYTES
            else _NOTHING,
        )

    def _changed(self, kind: Kind, old: Owner | None, new: Owner | None) -> None:
        known = new or old
        if known is not None and (old is None or new is None or _matter(old) != _matter(new)):
            self._tell(kind, known.key)

    def _tell(self, kind: Kind, key: Key | None) -> None:
        for listener in self._listeners:
            listener(kind, key)

    async def _read_one(self, link: Link) -> float | None:
        """Ask for one object that no watch has shown, though it is time.

        Raises:
            KubeError: it could not be asked for.
        """
        resource = await self._discovery.find(link.kind)
        watch = self._watches.get(link.kind, _KindWatch())
        if self.seen(link) is not None or watch.problem or link in self._read:
            return None
        if resource is None or (watch.informer is not None and not watch.informer.synced.is_set()):
            return _SYNC_AGAIN_S
        try:
            found = await self._kube.get(resource.path(link.namespace, link.name), Owner)
        except errors.NotFound:
            found = None
        except errors.Unreadable:
            return _SYNC_AGAIN_S  # the watch will say what is known of it
        kept = self._kept(found, resource) if found is not None and link.leads_to(found) else None
        self._read[link] = kept if kept is not None else Absence.GONE
        self._tell(link.kind, (link.namespace, link.name))
        return None


def _rescued(found: Unreadable) -> Owner:
    """Its metadata, which is all that counts of most kinds."""
    return OddOwner(metadata=found.object.metadata, why=found.why)


def _pod_as_owner(pod: Pod) -> Owner:
    return Owner(api_version="v1", kind=POD.kind, metadata=pod.metadata)


def _matter(owner: Owner) -> tuple[object, ...]:
    """All of it but its version, which changes with fields that are not kept."""
    odd = owner.why if isinstance(owner, OddOwner) else ""
    return (msgspec.structs.replace(owner.metadata, resource_version=""), owner.spec, owner.status, odd)

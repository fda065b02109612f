"""A local copy of a collection, kept up to date by list and watch.

Its rules are those of client-go's reflector:

* List page by page, then watch from the version of the list. Remember the newest version, also that of a bookmark.
* On error 410, list again and compare, so that missed deletions are reported.
* After another error, wait longer and longer, with a random part.
* Never await between a change of the store and the calls of its handlers, so that a handler sees the store right after
  its change.

If changes take long, other tasks run between two of them, because one chunk of a watch may bring hundreds.

One bad object must not affect the others: neither one that cannot be read, nor one on which a handler fails.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

import msgspec
import structlog

from sunkpy.core.model.objects import Key, KubeObject
from sunkpy.core.model.times import backoff_s
from sunkpy.kube import decoding, errors, paths
from sunkpy.kube.bounds import bounded
from sunkpy.kube.client import Kube
from sunkpy.kube.decoding import TOO_DEEP, Decoder, Unreadable
from sunkpy.runtime.turns import Turns, in_turns

T = TypeVar("T", bound=KubeObject)
Handler = Callable[[T | None, T | None], None]
"""A function that is called with (old, new): (None, x) added, (x, y) changed, (x, None) deleted. It must not block. If
it raises an exception, the informer calls `tell`.
"""

Keep = Callable[[T], T]
"""A function that reduces an object to what stays in the store."""

Tell = Callable[[KubeObject, str], None]
"""A function that is called with an object that cannot be decoded, or over which a handler failed, and why. It must not
block or raise.
"""

Rescue = Callable[[Unreadable], T | None]
"""A function that returns the store's entry for an object that cannot be decoded; None keeps an older entry."""

UntilServed = Callable[[], Awaitable[None]]
"""An async function that is called when the apiserver does not serve the collection. When it returns, the collection is
listed again.
"""

_BACKOFF_FIRST_S, _BACKOFF_LAST_S = 0.2, 10.0


class _Error(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


def _whole(item: T) -> T:
    return item


def _nothing(_: Unreadable) -> None:
    return None


class Informer(Generic[T]):
    """A local copy of one collection by list and watch. With `are_large`, few objects are listed at a time: anybody may
    make them large.

    `synced` is set after the first list has been handled; `connected` is true while the server keeps a watch open.
    """

    def __init__(
        self,
        kube: Kube,
        path: str,
        item_type: type[T],
        *,
        label_selector: str = "",
        field_selector: str = "",
        keep: Keep[T] = _whole,
        rescue: Rescue[T] = _nothing,
        tell: Tell | None = None,
        until_served: UntilServed | None = None,
        are_large: bool = False,
    ) -> None:
        self._kube = kube
        self._are_large = are_large
        self._selection = paths.Selection(path, label_selector, field_selector)
        self._keep = keep
        self._rescue = rescue
        self._decoder = Decoder(item_type)
        self._store: dict[Key, T] = {}
        self._handlers: list[Handler[T]] = []
        self._version = ""
        self._log = structlog.get_logger("informer").bind(path=path)
        self._tell = tell or self._log_odd
        self._until_served = until_served
        self.synced = asyncio.Event()
        self.connected = False
        self._connected_at = 0.0

    def add_handler(self, handler: Handler[T], *, of: Callable[[T], bool] | None = None) -> None:
        """Call this function with each change from now on. Add it before `run`. `of`: only with changes of objects for
        which this returns True before the change or after it.
        """
        self._handlers.append(handler if of is None else _limited(handler, of))

    def get(self, namespace: str, name: str) -> T | None:
        """Return the object as last seen; None if the copy does not have it. Only while `connected` is true, None
        proves that the object does not exist.
        """
        return self._store.get((namespace, name))

    def values(self) -> Iterable[T]:
        """Return all objects as last seen, unordered. Do not await while iterating, because the watch changes them."""
        return self._store.values()

    @property
    def version(self) -> str:
        """The resourceVersion up to which all changes have been handled; empty while that is not known."""
        return self._version

    @property
    def connected_s(self) -> float:
        """The seconds since the server last opened the watch. When it opens one, it sends all changes since the last
        list, so the copy may lag for a moment.
        """
        return asyncio.get_running_loop().time() - self._connected_at

    def __len__(self) -> int:
        return len(self._store)

    def clear(self) -> None:
        """Drop all objects without calling handlers. Call it only after `run` has ended."""
        self._store.clear()

    async def run(self) -> None:
        """Keep the copy up to date until cancelled. A failed request or an unreadable answer does not end it: the error
        is logged, and the request is sent again after a while.
        """
        failures = 0
        while True:
            try:
                if not self._version:
                    await self._relist()
                    failures = 0
                await self._watch()
            except (errors.KubeError, msgspec.DecodeError) as error:
                # If a watch's version has expired, list again at once. After an expired list wait, as after any error.
                if isinstance(error, errors.Gone) and self._version:
                    self._version = ""
                    continue
                if isinstance(error, errors.NotFound | errors.NotServed) and self._until_served is not None:
                    self._version, self.connected = "", False
                    await self._until_served()
                    continue
                if self.connected:
                    failures = 0
                delay_s = backoff_s(failures, first_s=_BACKOFF_FIRST_S, last_s=_BACKOFF_LAST_S)
                failures += 1
                self._log.warning("watch interrupted", error=str(error), retry_in_s=round(delay_s, 1))
                if isinstance(error, msgspec.DecodeError):
                    self._version = ""
                await asyncio.sleep(delay_s * random.uniform(0.5, 1.0))
            else:
                # A server may close watches at once; never let that become a busy loop.
                await asyncio.sleep(random.uniform(0.0, 0.05))
            finally:
                self.connected = False

    async def _relist(self) -> None:
        listed: dict[Key, T | Unreadable] = {}
        async for page in self._kube.pages(self._selection, are_large=self._are_large):
            listed |= {item.key: self._kept(item) for item in map(self._decoder.read, page.items)}
        for key in [key for key in self._store if key not in listed]:
            self._change(key, None)
        async for item in in_turns(listed.values()):
            self._take(item)
        self._version = page.version
        self.synced.set()

    async def _watch(self) -> None:
        stream = self._kube.watch_lines(self._selection, resource_version=self._version, on_open=self._opened)
        turns = Turns()
        async for line in stream:
            self._handle(decoding.read_event(line))
            await turns.rest()

    def _opened(self) -> None:
        self.connected, self._connected_at = True, asyncio.get_running_loop().time()

    def _handle(self, event: decoding.WatchEvent) -> None:
        if event.type == "ERROR":
            error = msgspec.json.decode(event.object, type=_Error)
            kind = errors.Gone if error.code == 410 else errors.Unavailable
            raise kind(f"WATCH {self._selection.path}", status=error.code, message=error.message)
        if event.type == "BOOKMARK":
            # Only its version means something: a Pod's bookmark says `containers: null`.
            self._version = msgspec.json.decode(event.object, type=KubeObject).metadata.resource_version
            return
        if event.type not in ("ADDED", "MODIFIED", "DELETED"):
            return
        item = self._decoder.read(event.object)
        if event.is_cut:
            item = Unreadable(object=item.object if isinstance(item, Unreadable) else item, why=TOO_DEEP)
        seen: KubeObject = item.object if isinstance(item, Unreadable) else item
        if event.type == "DELETED":
            self._change(seen.key, None)
        else:
            self._take(self._kept(item))
        self._version = seen.metadata.resource_version or self._version

    def _kept(self, item: T | Unreadable) -> T | Unreadable:
        return item if isinstance(item, Unreadable) else self._keep(bounded(item))

    def _take(self, item: T | Unreadable) -> None:
        """Put an object into the store, and call the handlers. An object that cannot be decoded is reported; then the
        entry that `rescue` returns for it is stored, if there is one.
        """
        kept: T | None
        if isinstance(item, Unreadable):
            self._tell(item.object, item.why)
            kept = self._rescue(item)
        else:
            kept = item
        if kept is not None:
            self._change(kept.key, kept)

    def _change(self, key: Key, new: T | None) -> None:
        old = self._store.get(key)
        if old is None and new is None:
            return
        if old is not None and new is not None and old.metadata.resource_version == new.metadata.resource_version:
            return
        if new is None:
            del self._store[key]
        else:
            self._store[key] = new
        for handler in self._handlers:
            self._call(handler, old, new)

    def _call(self, handler: Handler[T], old: T | None, new: T | None) -> None:
        about, log = new or old, self._log
        assert about is not None
        try:
            handler(old, new)
        except Exception as error:
            self._tell(about, f"{type(error).__name__}: {error}")
            log.debug("trace", exc_info=error)

    def _log_odd(self, about: KubeObject, why: str) -> None:
        self._log.warning("odd object", namespace=about.metadata.namespace, name=about.name, why=why)


def _limited(handler: Handler[T], of: Callable[[T], bool]) -> Handler[T]:
    def call(old: T | None, new: T | None) -> None:
        if (old is not None and of(old)) or (new is not None and of(new)):
            handler(old, new)

    return call


class Together(Generic[T]):
    """Several informers used as one. Each keeps another part of the same collection, and no object is in two parts.

    A field selector has no "or", so for the pods of several schedulers there is one watch each.
    """

    def __init__(self, parts: Iterable[Informer[T]]) -> None:
        self.parts = tuple(parts)

    def add_handler(self, handler: Handler[T], *, of: Callable[[T], bool] | None = None) -> None:
        """Call this function with each change in any part. `of`: only with changes of objects for which this returns
        True before the change or after it.
        """
        for part in self.parts:
            part.add_handler(handler, of=of)

    def get(self, namespace: str, name: str) -> T | None:
        """Return the object as last seen; None if no part has it. If two parts have an object of this name, return the
        one that was created later.
        """
        found = [item for part in self.parts if (item := part.get(namespace, name)) is not None]
        return max(found, key=lambda item: item.metadata.creation_timestamp, default=None)

    @property
    def version(self) -> str:
        """The newest resourceVersion that any part has reached; empty as long as some part has none yet."""
        versions = [part.version for part in self.parts]
        return max(versions, key=int) if all(version.isdecimal() for version in versions) else ""

    def values(self) -> Iterator[T]:
        """Return all objects of all parts as last seen. Do not await while iterating."""
        return chain.from_iterable(part.values() for part in self.parts)

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

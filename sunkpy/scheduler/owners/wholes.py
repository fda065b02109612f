"""What is kept of objects whose spec decides about pods: the metadata of each object that the watch shows, and the
whole of a few.

A cluster has thousands of Workflows and Jobs of other people, of up to a megabyte each. So all of an object is kept
only while a pod of ours is below it, and of what was seen last `_LATELY_BYTES` in all: an object is mostly made right
before its pods, and then need not be asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import cachetools

from sunkpy.core.model.objects import Key, Kind, Owner

_LATELY_BYTES: Final = 64 * 1024 * 1024

_Place = tuple[Kind, Key]


class CutOwner(Owner, frozen=True, kw_only=True):
    """An object without spec and status; `digest` tells whether they changed."""

    digest: int = 0


class Wholes:
    """Whole objects. `is_needed` says of kind and key whether a pod of ours is below; it must not block."""

    def __init__(self, is_needed: Callable[[Kind, Key], bool]) -> None:
        self._is_needed = is_needed
        self._needed: dict[_Place, Owner] = {}
        self._lately: cachetools.LRUCache[_Place, Owner] = cachetools.LRUCache(_LATELY_BYTES, getsizeof=_bytes_of)

    def cut(self, owner: Owner) -> CutOwner:
        """The object as the watch shows it now, without the whole, which is kept if that is worth it."""
        place = (owner.is_a, owner.key)
        self.forget(*place)
        if self._is_needed(*place):
            self._needed[place] = owner
        else:
            self._keep_a_while(place, owner)
        digest = hash((bytes(owner.spec), bytes(owner.status)))
        meta, version, kind = owner.metadata, owner.api_version, owner.kind
        return CutOwner(api_version=version, kind=kind, metadata=meta, digest=digest)

    def of(self, cut: CutOwner) -> Owner | None:
        """The whole of an object; None when it has to be asked for."""
        place = (cut.is_a, cut.key)
        found = self._needed.get(place) or self._lately.get(place)
        return found if found is not None and found.uid == cut.uid else None

    def forget(self, kind: Kind, key: Key) -> None:
        """Forget an object that is gone."""
        self._needed.pop((kind, key), None)
        self._lately.pop((kind, key), None)

    def let_go(self, kind: Kind, key: Key) -> None:
        """Drop an object, because none of our pods is below it any more."""
        if (owner := self._needed.pop((kind, key), None)) is not None:
            self._keep_a_while((kind, key), owner)

    def _keep_a_while(self, place: _Place, owner: Owner) -> None:
        if _bytes_of(owner) <= self._lately.maxsize:
            self._lately[place] = owner


def _bytes_of(owner: Owner) -> int:
    """About so much memory it takes."""
    return 1024 + memoryview(owner.spec).nbytes + memoryview(owner.status).nbytes

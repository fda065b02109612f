"""Stores whole objects, with spec and status, for the kinds of owners whose spec decides about their pods. An object is
stored here as long as it is needed. Of the other objects only the metadata is kept, elsewhere.

A cluster has thousands of Workflows and Jobs of other users, of up to a megabyte each. So a whole object is stored only
while a pod of this scheduler is below it. The objects seen last are also stored, up to `_LATELY_BYTES` in all: most
objects are created right before their pods, and then the apiserver need not be asked for them.

The watch reads whole objects, although most are cut at once. A watch of metadata would not show all changes of status,
which some families read: `metadata.generation` counts changes of the spec.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import cachetools

from sunkpy.core.model.objects import Key, Kind, Owner

_LATELY_BYTES: Final = 64 * 1024 * 1024

_Place = tuple[Kind, Key]


class CutOwner(Owner, frozen=True, kw_only=True):
    """An owner of pods without its spec and status, which take too much memory. `digest` is a hash of both, and so
    changes when one of them does.
    """

    digest: int = 0


class Wholes:
    """Stores owners of pods as whole objects, with spec and status. `is_needed` returns for a kind and key whether a
    pod of this scheduler is below this owner; it must not block.
    """

    def __init__(self, is_needed: Callable[[Kind, Key], bool]) -> None:
        self._is_needed = is_needed
        self._needed: dict[_Place, Owner] = {}
        self._lately: cachetools.LRUCache[_Place, Owner] = cachetools.LRUCache(_LATELY_BYTES, getsizeof=_bytes_of)

    def cut(self, owner: Owner) -> CutOwner:
        """Return an owner without its spec and status, and store the whole object: as long as a pod of this scheduler
        is below it, or else only for a while.
        """
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
        """Return the whole object, with spec and status, of an owner that was cut; None if it is not stored, so that
        the apiserver has to be asked.
        """
        place = (cut.is_a, cut.key)
        found = self._needed.get(place) or self._lately.get(place)
        return found if found is not None and found.uid == cut.uid else None

    def forget(self, kind: Kind, key: Key) -> None:
        """Drop the stored object of an owner, because the owner is gone."""
        self._needed.pop((kind, key), None)
        self._lately.pop((kind, key), None)

    def let_go(self, kind: Kind, key: Key) -> None:
        """Record that no pod of this scheduler is below an owner any more. Its whole object stays stored only for a
        while longer.
        """
        if (owner := self._needed.pop((kind, key), None)) is not None:
            self._keep_a_while((kind, key), owner)

    def _keep_a_while(self, place: _Place, owner: Owner) -> None:
        if _bytes_of(owner) <= self._lately.maxsize:
            self._lately[place] = owner


def _bytes_of(owner: Owner) -> int:
    """Return roughly how many bytes of memory the owner object takes."""
    return 1024 + memoryview(owner.spec).nbytes + memoryview(owner.status).nbytes

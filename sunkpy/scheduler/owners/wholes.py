"""Keeps whole objects (owners whose spec decides about pods) as long as they are needed; of others only metadata.

A cluster has thousands of Workflows and Jobs of other users, of up to a megabyte each. So a whole object is kept only
while a pod of this scheduler is below it. The objects seen last are also kept, up to `_LATELY_BYTES` in all: most
objects are made right before their pods, and then the apiserver need not be asked.

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
    """An owner without spec and status; `digest` changes when one of these does."""

    digest: int = 0


class Wholes:
    """Stores whole owners. `is_needed` returns for kind and key whether a pod of this scheduler is below; it must not
    block.
    """

    def __init__(self, is_needed: Callable[[Kind, Key], bool]) -> None:
        self._is_needed = is_needed
        self._needed: dict[_Place, Owner] = {}
        self._lately: cachetools.LRUCache[_Place, Owner] = cachetools.LRUCache(_LATELY_BYTES, getsizeof=_bytes_of)

    def cut(self, owner: Owner) -> CutOwner:
        """Return an owner from the watch without spec and status. The whole is stored if it is needed, or for a
        while.
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
        """Return the stored whole of an owner; None if the apiserver has to be asked."""
        place = (cut.is_a, cut.key)
        found = self._needed.get(place) or self._lately.get(place)
        return found if found is not None and found.uid == cut.uid else None

    def forget(self, kind: Kind, key: Key) -> None:
        """Forget an owner that is gone."""
        self._needed.pop((kind, key), None)
        self._lately.pop((kind, key), None)

    def let_go(self, kind: Kind, key: Key) -> None:
        """Note that no pod of this scheduler is below an owner any more. It is kept a while longer."""
        if (owner := self._needed.pop((kind, key), None)) is not None:
            self._keep_a_while((kind, key), owner)

    def _keep_a_while(self, place: _Place, owner: Owner) -> None:
        if _bytes_of(owner) <= self._lately.maxsize:
            self._lately[place] = owner


def _bytes_of(owner: Owner) -> int:
    """Return about how many bytes of memory an owner takes."""
    return 1024 + memoryview(owner.spec).nbytes + memoryview(owner.status).nbytes

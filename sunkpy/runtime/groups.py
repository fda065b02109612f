"""Multimaps for indexes. A key without values is dropped, so that an index does not grow for ever."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from sunkpy.core.model.objects import KubeObject

K = TypeVar("K", bound=Hashable)
Id = TypeVar("Id", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T", bound=KubeObject)


class Groups(dict[K, dict[Id, V]]):
    """A multimap: each key has values, each with an id. A key without values is dropped."""

    def put(self, key: K, id: Id, value: V) -> None:
        """Add the value under this key. It replaces a value with the same id."""
        self.setdefault(key, {})[id] = value

    def drop(self, key: K, id: Id) -> None:
        """Remove the value with this id from the key, if it is there."""
        group = self.get(key, {})
        group.pop(id, None)
        if not group:
            self.pop(key, None)

    def of(self, key: K) -> tuple[V, ...]:
        """Return the values of a key, in the order in which they came; empty if there are none."""
        return tuple(self.get(key, {}).values())


class Watched(Groups[K, str, T]):
    """An index of the objects of a watch: each object stands under all keys that `keys_of` returns for it."""

    def __init__(self, keys_of: Callable[[T], Iterable[K]]) -> None:
        super().__init__()
        self._keys_of = keys_of

    def follow(self, old: T | None, new: T | None) -> None:
        """Put a changed object under its present keys, and no longer under its old ones. This is a handler for an
        informer.
        """
        if old is not None:
            for key in self._keys_of(old):
                self.drop(key, old.uid)
        if new is not None:
            for key in self._keys_of(new):
                self.put(key, new.uid, new)

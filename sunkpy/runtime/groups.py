"""Values that belong to keys, where a key goes with its last value: indexes that grow no larger than what they show."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
Id = TypeVar("Id", bound=Hashable)
V = TypeVar("V")


class Groups(dict[K, dict[Id, V]]):
    """For each key that has any, the values by what tells them apart."""

    def put(self, key: K, id: Id, value: V) -> None:
        """The value is one of the key's, in place of what was there under the id."""
        self.setdefault(key, {})[id] = value

    def drop(self, key: K, id: Id) -> None:
        """What was there under the id is not the key's any more."""
        group = self.get(key, {})
        group.pop(id, None)
        if not group:
            self.pop(key, None)

    def of(self, key: K) -> tuple[V, ...]:
        """The values of a key, in the order in which they came."""
        return tuple(self.get(key, {}).values())

"""Items in the order of a key, kept while they come and go.

The order is made at the first listing: a thousand items that are put in at the start cost one sort, and a list that
is never read costs none. From then on one item that comes or goes costs a search and a shift of pointers.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

SortKey = tuple[object, ...]
"""A key to sort by. It is compared only with keys of the same shape."""


class Ordered(Generic[T]):
    """Items by name, listed in the order of their keys. Items with equal keys are ordered by name."""

    def __init__(self) -> None:
        self._items: dict[str, tuple[SortKey, T]] = {}
        self._order: list[tuple[SortKey, str]] | None = None

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        if self._order is None:
            self._order = sorted((key, name) for name, (key, _) in self._items.items())
        return (self._items[name][1] for _, name in self._order)

    def put(self, name: str, key: SortKey, item: T) -> None:
        """Add an item; there must be none of that name."""
        self._items[name] = (key, item)
        if self._order is not None:
            bisect.insort(self._order, (key, name))

    def drop(self, name: str) -> None:
        """Remove the item of this name; do nothing if there is none."""
        found = self._items.pop(name, None)
        if found is not None and self._order is not None:
            del self._order[bisect.bisect_left(self._order, (found[0], name))]

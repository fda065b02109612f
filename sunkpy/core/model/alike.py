"""One of each: the pods of a gang are made from a few templates, and what holds for a template is asked once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

_NOTHING: Final = object()


def one_of_each(items: Iterable[T], trait: Callable[[T], object]) -> Iterator[T]:
    """The first of all that have the same trait, a value as it comes from the wire.

    Neighbours are mostly alike, so each is compared with the one before; only where they differ the trait is encoded,
    to be looked up among all that were found. So it takes as many steps as there are items.
    """
    before: object = _NOTHING
    found: set[bytes] = set()
    for item in items:
        own = trait(item)
        if own != before:
            before, key = own, msgspec.msgpack.encode(own)
            if key not in found:
                found.add(key)
                yield item

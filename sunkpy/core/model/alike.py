"""Finds one item of each kind: a gang's pods come from a few templates, so a question about them is answered once for
each template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from sunkpy.core.model.objects import PodSpec

T = TypeVar("T")

_NOTHING: Final = object()


def one_of_each(items: Iterable[T], trait: Callable[[T], object]) -> Iterator[T]:
    """Yield the first item for each distinct value that `trait` returns. msgpack must be able to encode this value.

    Neighbours mostly have the same value. So a value is first compared with that of the previous item, and is encoded
    and looked up only if the two values differ. The time is proportional to the number of items.
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


def template_of(spec: PodSpec) -> tuple[object, ...]:
    """Return the part of a pod's spec that says what it needs from a node, and which nodes it allows. It is equal for
    all pods of one template.
    """
    where = (spec.node_selector, spec.affinity, spec.tolerations)
    return (*where, spec.containers, spec.init_containers, spec.overhead, spec.resources)

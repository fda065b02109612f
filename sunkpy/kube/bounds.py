"""Limits how much of an object's metadata is kept in memory.

Everybody who may create an object may give it 256 kB of annotations; for labels and references to owners, the only
limit is etcd's 1.5 MB for the object. Short texts take six times their length in memory. So a hundred such pods would
exhaust the memory of a leader, and then of each replica that leads after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import KubeObject, OwnerReference

T = TypeVar("T", bound=KubeObject)

MOST_OF_ALL: Final = 32 * 1024
"""The most bytes in memory of all annotations of an object together, and of all its labels."""
MOST_OF_ONE: Final = 16 * 1024
"""The most characters of one label or annotation that `bounded` keeps when it limits an object; the rest is cut off. 64
groups of YuniKorn take 6,000. A gang whose list of groups is cut is refused.
"""
MOST_OWNERS: Final = 64
_BESIDE_TEXT: Final = 100
"""Bytes that two short texts take in addition to their characters."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def bounded(item: T) -> T:
    """Return the object with limited metadata: at most 32 KiB of annotations and of labels, and `MOST_OWNERS`
    references to owners. kubectl's annotation with a copy of the object is always dropped. The annotations that the
    scheduler writes with a binding are kept before all others.
    """
    meta = item.metadata
    is_small = _bytes_of(meta.annotations) <= MOST_OF_ALL and _bytes_of(meta.labels) <= MOST_OF_ALL
    if is_small and len(meta.owner_references) <= MOST_OWNERS and _LAST_APPLIED not in meta.annotations:
        return item
    kept = msgspec.structs.replace(
        meta,
        annotations=_kept(meta.annotations),
        labels=_kept(meta.labels),
        owner_references=_most_needed(meta.owner_references),
    )
    return msgspec.structs.replace(item, metadata=kept)


def _bytes_of(texts: Mapping[str, str]) -> int:
    return _BESIDE_TEXT * len(texts) + sum(map(len, texts)) + sum(map(len, texts.values()))


def _kept(written: Mapping[str, str]) -> dict[str, str]:
    noted = {name: written[name] for name in names.BINDING_NOTE if name in written}
    kept: dict[str, str] = {}
    left = MOST_OF_ALL
    for name, value in {**noted, **written}.items():
        left -= _BESIDE_TEXT + len(name) + min(len(value), MOST_OF_ONE)
        if left < 0:
            break
        if name != _LAST_APPLIED:
            kept[name] = value[:MOST_OF_ONE]
    return kept


def _most_needed(references: Sequence[OwnerReference]) -> tuple[OwnerReference, ...]:
    """Return at most `MOST_OWNERS` references, the controller's first."""
    return tuple(sorted(references, key=lambda each: not each.controller)[:MOST_OWNERS])

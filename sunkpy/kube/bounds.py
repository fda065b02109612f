"""How much of an object's annotations is remembered.

Kubernetes takes 256 KiB an object from everybody who may create one, and a thousand such pods would end a leader, and
each one after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import KubeObject

T = TypeVar("T", bound=KubeObject)

MOST_OF_ALL: Final = 32 * 1024
"""Characters of all names and values together."""
MOST_OF_ONE: Final = 16 * 1024
"""Characters of a value: 64 groups of YuniKorn take 6,000. Cut, no list can be read, and its gang is refused."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def bounded(item: T) -> T:
    """The object with as much of its annotations as anybody needs; what came with a binding is kept before all."""
    written = item.metadata.annotations
    if sum(map(len, written)) + sum(map(len, written.values())) <= MOST_OF_ALL and _LAST_APPLIED not in written:
        return item
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, annotations=_kept(written)))


def _kept(written: Mapping[str, str]) -> dict[str, str]:
    noted = {name: written[name] for name in names.BINDING_NOTE if name in written}
    kept: dict[str, str] = {}
    left = MOST_OF_ALL
    for name, value in {**noted, **written}.items():
        left -= len(name) + min(len(value), MOST_OF_ONE)
        if left < 0:
            break
        if name != _LAST_APPLIED:
            kept[name] = value[:MOST_OF_ONE]
    return kept

"""Which devices of each node a job has, as Slurm tells it: `gpu:h100:2(IDX:0-1),nic:1(IDX:0)`.

What the job asks for is made in `core.placement.needs:gres`; which of its devices a pod gets is chosen in
`core.gang.devices.indices`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

Indices = dict[str, tuple[int, ...]]
"""GRES → the indices that the job has of it, on one node: by its name, and by `name:type` where Slurm tells a type.

Types of one GRES are counted on: after four of the first type, the first of the second has index 4.
"""

_COUNT: Final = re.compile(r":(\d+)(?:\(|$)")
_WITHOUT_DEVICES: Final = re.compile(r"\(CNT:(\d+)\)")
_INDICES: Final = re.compile(r"\(IDX:([0-9,-]+)\)")


def gres_name(gres: str) -> str:
    """`gpu` of `gpu:h100`."""
    return gres.partition(":")[0]


def gres_count(text: str) -> int:
    """`gpu:h100:2(IDX:0-1),nic:1(IDX:0)`, `gres/gpu:h100:2` or `nic:0(CNT:3)` → how many in all."""
    counts = (_WITHOUT_DEVICES.findall(part) or _COUNT.findall(part) for part in _entries(text))
    return sum(int(count) for found in counts for count in found[:1])


def gres_counts(text: str) -> dict[str, int]:
    """`gpu:h100:2(IDX:0-1),nic:1(IDX:0)` → {"gpu": 2, "gpu:h100": 2, "nic": 1}."""
    found: dict[str, int] = {}
    for part in filter(None, _entries(text)):
        for gres in _names(part):
            found[gres] = found.get(gres, 0) + gres_count(part)
    return found


def gres_types(text: str) -> dict[str, list[str]]:
    """The types on a node, `gpu:h100:2(S:0),gpu:a100:1` → {"gpu": ["h100", "h100", "a100"]}: by index, empty without a
    type.
    """
    found: dict[str, list[str]] = {}
    for part in filter(None, _entries(text)):
        name, *typed = _names(part)
        found.setdefault(name, []).extend([typed[0].partition(":")[2] if typed else ""] * gres_count(part))
    return found


def gres_indices(text: str) -> Indices:
    """`gpu:h100:2(IDX:0-1),nic:1(IDX:0)` → {"gpu": (0, 1), "gpu:h100": (0, 1), "nic": (0,)}; without what has none."""
    found: Indices = {}
    for part in _entries(text):
        for ranges in _INDICES.findall(part):
            for gres in _names(part):
                found[gres] = tuple(sorted({*found.get(gres, ()), *_expanded(ranges)}))
    return found


def _names(part: str) -> Iterable[str]:
    """Those under which an entry counts: `gpu`, and `gpu:h100` if it has a type."""
    name, *more = part.removeprefix("gres/").partition("(")[0].split(":")
    yield name
    if len(more) > 1:
        yield f"{name}:{more[0]}"


def _entries(text: str) -> Iterable[str]:
    """The parts between commas; those within parentheses do not divide."""
    return re.split(r",(?![^()]*\))", text)


def _expanded(ranges: str) -> Iterable[int]:
    for each in ranges.split(","):
        first, _, last = each.partition("-")
        yield from range(int(first), int(last or first) + 1)

"""Which devices of each node a job has, as Slurm tells it: `gpu:h100:2(IDX:0-1),nic:1(IDX:0)`.

What the job asks for is made in `core.placement.needs:gres`; which of its devices a pod gets is chosen in
`core.gang.seating.devices`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

Indices = dict[str, tuple[int, ...]]
"""GRES name → the indices that the job has of it, on one node; types of one GRES are counted together."""

_COUNT: Final = re.compile(r":(\d+)(?:\(|$)")
_INDICES: Final = re.compile(r"\(IDX:([0-9,-]+)\)")


def gres_count(text: str) -> int:
    """`gpu:h100:2(IDX:0-1),nic:1(IDX:0)` or `gres/gpu:h100:2` → how many in all."""
    return sum(int(count) for part in _entries(text) for count in _COUNT.findall(part)[:1])


def gres_counts(text: str) -> dict[str, int]:
    """`gpu:h100:2(IDX:0-1),nic:1(IDX:0)` → {"gpu": 2, "nic": 1}."""
    found: dict[str, int] = {}
    for part in filter(None, _entries(text)):
        name = part.removeprefix("gres/").partition(":")[0]
        found[name] = found.get(name, 0) + gres_count(part)
    return found


def gres_indices(text: str) -> Indices:
    """`gpu:h100:2(IDX:0-1),nic:1(IDX:0)` → {"gpu": (0, 1), "nic": (0,)}; without what has no indices."""
    found: Indices = {}
    for part in _entries(text):
        for ranges in _INDICES.findall(part):
            name = part.removeprefix("gres/").partition(":")[0]
            found[name] = tuple(sorted({*found.get(name, ()), *_expanded(ranges)}))
    return found


def _entries(text: str) -> Iterable[str]:
    """The parts between commas; those within parentheses do not divide."""
    return re.split(r",(?![^()]*\))", text)


def _expanded(ranges: str) -> Iterable[int]:
    for each in ranges.split(","):
        first, _, last = each.partition("-")
        yield from range(int(first), int(last or first) + 1)

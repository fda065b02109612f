"""Which GRES a job has on each node, read from Slurm's text such as `gpu:h100:2(IDX:0-1),nic:1(IDX:0)`.

`core.placement.needs:gres` makes the GRES that a job asks for; `core.gang.devices.indices` chooses which of the job's
devices a pod gets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

Indices = dict[str, tuple[int, ...]]
"""The indices of each GRES that a job has on one node. A key is the GRES name, and also `name:type` if Slurm gives a
type.

Indices go on through the types of a GRES: after four of the first type, the first of the second has index 4.
"""

_COUNT: Final = re.compile(r":(\d+)(?:\(|$)")
_WITHOUT_DEVICES: Final = re.compile(r"\(CNT:(\d+)\)")
_INDICES: Final = re.compile(r"\(IDX:([0-9,-]+)\)")


def gres_name(gres: str) -> str:
    """Return the name of a GRES without its type: `gpu` of `gpu:h100`."""
    return gres.partition(":")[0]


def gres_count(text: str) -> int:
    """Return how many GRES a text names, all kinds together: `gpu:h100:2(IDX:0-1),nic:1(IDX:0)` → 3."""
    counts = (_WITHOUT_DEVICES.findall(part) or _COUNT.findall(part) for part in _entries(text))
    return sum(int(count) for found in counts for count in found[:1])


def gres_counts(text: str) -> dict[str, int]:
    """Return the count of each GRES: `gpu:h100:2(IDX:0-1),nic:1(IDX:0)` → {"gpu": 2, "gpu:h100": 2, "nic": 1}."""
    found: dict[str, int] = {}
    for part in filter(None, _entries(text)):
        for gres in _names(part):
            found[gres] = found.get(gres, 0) + gres_count(part)
    return found


def gres_types(text: str) -> dict[str, list[str]]:
    """Return the type of each index on a node: `gpu:h100:2(S:0),gpu:a100:1` → {"gpu": ["h100", "h100", "a100"]}. A type
    that Slurm does not give is an empty text.
    """
    found: dict[str, list[str]] = {}
    for part in filter(None, _entries(text)):
        name, *typed = _names(part)
        found.setdefault(name, []).extend([typed[0].partition(":")[2] if typed else ""] * gres_count(part))
    return found


def gres_indices(text: str) -> Indices:
    """Return the indices of each GRES that has some: `gpu:h100:2(IDX:0-1),nic:1(IDX:0)` → {"gpu": (0, 1), "gpu:h100":
    (0, 1), "nic": (0,)}.
    """
    found: Indices = {}
    for part in _entries(text):
        for ranges in _INDICES.findall(part):
            for gres in _names(part):
                found[gres] = tuple(sorted({*found.get(gres, ()), *_expanded(ranges)}))
    return found


def _names(part: str) -> Iterable[str]:
    """Yield the GRES under which an entry counts: `gpu`, and `gpu:h100` if it has a type."""
    name, *more = part.removeprefix("gres/").partition("(")[0].split(":")
    yield name
    if len(more) > 1:
        yield f"{name}:{more[0]}"


def _entries(text: str) -> Iterable[str]:
    """Return the entries of a GRES text, which commas outside of parentheses divide."""
    return re.split(r",(?![^()]*\))", text)


def _expanded(ranges: str) -> Iterable[int]:
    for each in ranges.split(","):
        first, _, last = each.partition("-")
        yield from range(int(first), int(last or first) + 1)

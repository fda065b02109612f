"""Slurm's range syntax for lists of nodes: `gpu-[001-003,007],login` (man slurm.conf, NodeName).

Names are written with one bracket, as slurmctld does if names have one numeric dimension; several brackets can be read.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

_BRACKET = re.compile(r"^(?P<head>[^\[\]]*)\[(?P<ranges>[^\[\]]*)\](?P<tail>.*)$")
_LONGEST_RANGE = 2**16
"""slurmctld expands no longer range than this (MAX_RANGE). A longer one would cost memory, and names no nodes."""
_SHOWN = 200
_FIRST = 10
_NUMBERED = re.compile(r"^(?P<head>.*?)(?P<number>[0-9]+)$")


class BadHostlist(ValueError):
    """The error that a text is not in Slurm's range syntax, or lists too many names."""


class _BadPart(ValueError):
    """The error that a part of a hostlist cannot be read; the text says why."""


def expand(text: str, *, most: int = sys.maxsize) -> list[str]:
    """Return the names in the order written: `a[1-2],b` → a1, a2, b.

    Raises:
        BadHostlist: brackets do not match, a range is no range, runs backwards or is longer than Slurm allows, several
            brackets make too many names, or there are more than `most` names.
    """
    names: list[str] = []
    try:
        for part in _split(text):
            names += _expand_part(part)
            if len(names) > most:
                raise _BadPart(f"it has more than {most} names")
        return names
    except _BadPart as error:
        raise BadHostlist(f"hostlist {text[:_SHOWN]!r}: {error}") from error


def compress(names: Iterable[str]) -> str:
    """Return a hostlist in Slurm's range syntax that expands to the same names, sorted and without duplicates."""
    groups: dict[tuple[str, int], set[int]] = {}
    plain: set[str] = set()
    for name in names:
        match = _NUMBERED.match(name)
        if match is None:
            plain.add(name)
        else:
            number = match["number"]
            groups.setdefault((match["head"], len(number)), set()).add(int(number))
    parts = sorted(plain)
    parts += [_bracket(head, width, sorted(numbers)) for (head, width), numbers in sorted(groups.items())]
    return ",".join(parts)


def describe(names: Iterable[str]) -> str:
    """Return the names as a hostlist for people. A long one shows the first names and how many more there are."""
    known = sorted(set(names))
    text = compress(known)
    if len(text) <= _SHOWN or len(known) <= _FIRST:
        return text
    return f"{compress(known[:_FIRST])} and {len(known) - _FIRST} more"


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if depth not in (0, 1):
            raise _BadPart("its brackets do not match")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    if depth:
        raise _BadPart("its brackets do not match")
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def _expand_part(part: str) -> list[str]:
    match = _BRACKET.match(part)
    if match is None:
        return [part]
    numbers = [number for piece in match["ranges"].split(",") for number in _expand_range(piece)]
    rests = _expand_part(match["tail"])
    if len(rests) > 1 and len(numbers) * len(rests) > _LONGEST_RANGE:
        raise _BadPart("its brackets make too many names")
    return [match["head"] + number + rest for number in numbers for rest in rests] or [part]


def _expand_range(piece: str) -> list[str]:
    low, dash, high = piece.partition("-")
    if not _is_number(low) or (dash and not _is_number(high)):
        raise _BadPart(f"{piece[:_SHOWN]!r} is not a range")
    first, last = int(low), int(high) if dash else int(low)
    if not first <= last < first + _LONGEST_RANGE:
        raise _BadPart(f"{piece[:_SHOWN]!r} is not a range, or too long")
    return [str(number).zfill(len(low)) for number in range(first, last + 1)]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


def _bracket(head: str, width: int, numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [_run(run, width) for run in runs]
    return f"{head}{texts[0]}" if len(numbers) == 1 else f"{head}[{','.join(texts)}]"


def _run(run: list[int], width: int) -> str:
    first, last = str(run[0]).zfill(width), str(run[-1]).zfill(width)
    return first if len(run) == 1 else f"{first}-{last}"

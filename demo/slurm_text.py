"""Parses the output of scontrol, which has the same form in all Slurm releases from 24.11 to 26.05."""

from __future__ import annotations

import re
from collections.abc import Mapping

_INDEX = re.compile(r"\([^)]*\)")
_KEY = re.compile(r"(?:^|\s)([A-Za-z][\w:/]*)=")


def parse_oneliner(line: str) -> dict[str, str]:
    """Return the values by key of a line of `scontrol --oneliner show job|node`; values may contain spaces."""
    marks = list(_KEY.finditer(line))
    ends = [mark.start() for mark in marks[1:]] + [len(line)]
    return {mark[1]: line[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)}


def node_flags(node: Mapping[str, str]) -> frozenset[str]:
    """Return the state flags of a node, without suffixes such as `*` for not responding."""
    return frozenset(flag.rstrip("*~#!%$@^-") for flag in node.get("State", "").split("+"))


def gres_indices(gres: str) -> list[int]:
    """Return the sorted GPU indices in a text such as `gpu:h100:3(IDX:0-1,3)`."""
    of_gpus = re.findall(r"(?:^|,)gpu[^,(]*\(IDX:([\d,-]+)\)", gres)
    ends = (part.split("-") for listed in of_gpus for part in listed.split(","))
    return sorted(index for first, *last in ends for index in range(int(first), int((last or [first])[0]) + 1))


def gres_count(gres: str, name: str) -> int:
    """Return the count of one GRES, of all types, in a text such as `gpu:h100:2(IDX:0-1),shard:4`; 0 if it is
    absent.
    """
    items = (_INDEX.sub("", item).split(":") for item in re.split(r",(?![^(]*\))", gres))
    return sum(int(item[-1]) for item in items if item[0] == name and len(item) > 1)

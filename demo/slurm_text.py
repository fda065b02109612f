"""What scontrol prints, as values. The text form reads the same on every Slurm from 24.11 to 26.05."""

from __future__ import annotations

import re
from collections.abc import Mapping

_INDEX = re.compile(r"\([^)]*\)")
_KEY = re.compile(r"(?:^|\s)([A-Za-z][\w:/]*)=")


def parse_oneliner(line: str) -> dict[str, str]:
    """One line of `scontrol --oneliner show job|node`: key to value; values may hold spaces."""
    marks = list(_KEY.finditer(line))
    ends = [mark.start() for mark in marks[1:]] + [len(line)]
    return {mark[1]: line[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)}


def node_flags(node: Mapping[str, str]) -> frozenset[str]:
    """State of a node without the suffixes that mark it as not responding and the like."""
    return frozenset(flag.rstrip("*~#!%$@^-") for flag in node.get("State", "").split("+"))


def gres_indices(gres: str) -> list[int]:
    """Which GPUs of a node `gpu:h100:3(IDX:0-1,3)` names, in ascending order."""
    of_gpus = re.findall(r"(?:^|,)gpu[^,(]*\(IDX:([\d,-]+)\)", gres)
    ends = (part.split("-") for listed in of_gpus for part in listed.split(","))
    return sorted(index for first, *last in ends for index in range(int(first), int((last or [first])[0]) + 1))


def gres_count(gres: str, name: str) -> int:
    """Amount of one kind in `gpu:h100:2(IDX:0-1),shard:4`, whatever its type; 0 when it is not there."""
    items = (_INDEX.sub("", item).split(":") for item in re.split(r",(?![^(]*\))", gres))
    return sum(int(item[-1]) for item in items if item[0] == name and len(item) > 1)

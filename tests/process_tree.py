"""The processes below one. A name alone does not find them: others on this machine run programs of the same names."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

_PROC = Path("/proc")


def below(parent: int) -> list[int]:
    """The descendants of a process, sorted by id. Orphans belong to the first process of their namespace."""
    children: dict[int, list[int]] = {}
    for stat in _PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            above = int(stat.read_text().rpartition(") ")[2].split()[1])
            children.setdefault(above, []).append(int(stat.parent.name))
    found, left = list[int](), [parent]
    while left:
        own = children.get(left.pop(), [])
        found += own
        left += own
    return sorted(found)


def running(parent: int, pattern: str) -> list[int]:
    """The descendants whose whole command line, its words joined by spaces, matches a pattern."""
    return [pid for pid in below(parent) if re.fullmatch(pattern, command_line(pid))]


def command_line(pid: int) -> str:
    """The words of a process's command line, joined by spaces; empty if it has ended."""
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").replace("\0", " ")
    return ""


def program(pid: int) -> str:
    """The kernel's name of a process, which is its program unless it set another; empty if it has ended."""
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / "comm").read_text().strip()
    return ""

"""How much processor time and memory each program of the ground has used, by /proc."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tests import process_tree

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20
_PROC = Path("/proc")
_NAMED = 3


class Census(msgspec.Struct, frozen=True):
    """At a moment: processor seconds so far, of the whole machine and by program, and MiB by program."""

    at_s: float
    machine_s: float
    cpu_s: Mapping[str, float]
    memory_mib: Mapping[str, float]

    def shares_since(self, before: Census) -> dict[str, float]:
        """Of one core, by program, the largest first."""
        span_s = self.at_s - before.at_s or _TICK_S
        shares = {name: (spent_s - before.cpu_s.get(name, 0.0)) / span_s for name, spent_s in self.cpu_s.items()}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    def busiest_since(self, before: Census, *, cores: int) -> str:
        """Who used the machine, in words."""
        shares = self.shares_since(before)
        machine = (self.machine_s - before.machine_s) / (self.at_s - before.at_s or _TICK_S)
        most = ", ".join(f"{name} {share:.2f}" for name, share in list(shares.items())[:_NAMED])
        return f"{machine:.2f} of {cores} cores in use, {sum(shares.values()):.2f} by these programs: {most}"


def take(pids: Mapping[str, int]) -> Census:
    """Of these processes, each under its name."""
    cpu_s, memory_mib = dict[str, float](), dict[str, float]()
    at_s = time.monotonic()
    for name, pid in pids.items():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()
            cpu_s[name] = (int(fields[11]) + int(fields[12])) * _TICK_S
            memory_mib[name] = int(fields[21]) * _PAGE_MIB
    return Census(at_s, _machine_s(), cpu_s, memory_mib)


def status_mib(pid: int | str, what: str) -> float:
    """`VmRSS`, `VmHWM` … of a process, or of `self`, as the kernel shows it."""
    lines = (_PROC / str(pid) / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:")) / 2**10


def _machine_s() -> float:
    """All but idle and waiting for disks, since it was started."""
    user, nice, system, _, _, *interrupts = map(int, (_PROC / "stat").read_text().splitlines()[0].split()[1:8])
    return (user + nice + system + sum(interrupts)) * _TICK_S


def slurm_daemons_of(parent: int) -> dict[str, int]:
    """The daemons of Slurm among the descendants of a process, by name; of several the one that was started last."""
    named = {process_tree.program(pid): pid for pid in process_tree.below(parent)}
    return {name: pid for name, pid in named.items() if name.startswith("slurm")}

"""How much processor time and memory each program of a bench has used, from /proc."""

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
    """What programs have used up to `at_s`: processor seconds of the machine and of each program, and memory in MiB."""

    at_s: float
    machine_s: float
    cpu_s: Mapping[str, float]
    memory_mib: Mapping[str, float]

    def shares_since(self, before: Census) -> dict[str, float]:
        """Return for each program its share of one core since `before`, the largest first."""
        span_s = self.at_s - before.at_s or _TICK_S
        shares = {name: (spent_s - before.cpu_s.get(name, 0.0)) / span_s for name, spent_s in self.cpu_s.items()}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    def busiest_since(self, before: Census, *, cores: int) -> str:
        """Say in words which programs used the machine most since `before`."""
        shares = self.shares_since(before)
        machine = (self.machine_s - before.machine_s) / (self.at_s - before.at_s or _TICK_S)
        most = ", ".join(f"{name} {share:.2f}" for name, share in list(shares.items())[:_NAMED])
        return f"{machine:.2f} of {cores} cores in use, {sum(shares.values()):.2f} by these programs: {most}"


def take(pids: Mapping[str, int]) -> Census:
    cpu_s, memory_mib = dict[str, float](), dict[str, float]()
    at_s = time.monotonic()
    for name, pid in pids.items():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()
            cpu_s[name] = (int(fields[11]) + int(fields[12])) * _TICK_S
            memory_mib[name] = int(fields[21]) * _PAGE_MIB
    return Census(at_s, _machine_s(), cpu_s, memory_mib)


def status_mib(pid: int | str, what: str) -> float:
    """Return a value such as `VmRSS` or `VmHWM` of a process, or of `self`, in MiB."""
    lines = (_PROC / str(pid) / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:")) / 2**10


def _machine_s() -> float:
    """Return the machine's processor seconds since its start, without those idle or waiting for disks."""
    user, nice, system, _, _, *interrupts = map(int, (_PROC / "stat").read_text().splitlines()[0].split()[1:8])
    return (user + nice + system + sum(interrupts)) * _TICK_S


def slurm_daemons_of(parent: int) -> dict[str, int]:
    """Return Slurm's daemons below a process, by name; of several with one name, the one started last."""
    named = {process_tree.program(pid): pid for pid in process_tree.below(parent)}
    return {name: pid for name, pid in named.items() if name.startswith("slurm")}

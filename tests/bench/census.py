"""How much processor time and memory each program of a bench has used: from /proc, or from its own metrics."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from tests import process_tree

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20
_PROC = Path("/proc")
_NAMED = 3
_MIB = 2**20


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

    def busiest_since(self, before: Census, *, cores: int = os.cpu_count() or 1) -> str:
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


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What a process has used: requests to slurmrestd by endpoint, bytes of their bodies, processor seconds, memory."""

    calls: Counter[str]
    size: float
    cpu_s: float
    memory_mib: float

    def since(self, before: Spent) -> Spent:
        """Return what the process has used since `before`; its memory is the present one."""
        return Spent(
            calls=self.calls - before.calls,
            size=self.size - before.size,
            cpu_s=self.cpu_s - before.cpu_s,
            memory_mib=self.memory_mib,
        )


async def spent(port: int) -> Spent:
    """Return what the process that serves its metrics on this port has used."""
    url = f"http://127.0.0.1:{port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return read(await answer.text())


def read(text: str) -> Spent:
    calls: Counter[str] = Counter()
    size = cpu_s = memory = 0.0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            match sample.name:
                case "sunkpy_slurm_request_seconds_count":
                    calls[sample.labels["endpoint"]] += int(sample.value)
                case "sunkpy_slurm_bytes_total":
                    size += sample.value
                case "process_cpu_seconds_total":
                    cpu_s = sample.value
                case "process_resident_memory_bytes":
                    memory = sample.value
    return Spent(calls=calls, size=size, cpu_s=cpu_s, memory_mib=memory / _MIB)

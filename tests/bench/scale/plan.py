"""Which sizes this machine can hold: what the ground needs, by what it was seen to need."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

SIZES = (500, 1_000, 5_000, 10_000)
QUICK_SIZES = (100,)
STOCK_UP_TO = 5_000
"""Nodes: the DaemonSet controller as it comes takes 250 s for so many."""
SMALLEST = 100
_SAMPLE_S, _GROUND_S = 1.4, 45.0
_ALONE_MIB = 900
_EACH_NODE_MIB = 1.6
"""Etcd, apiserver, KWOK, kube-scheduler, slurmctld and slurmrestd at work, sunkpy and the bench."""


class Rounds(msgspec.Struct, frozen=True, kw_only=True):
    """How many samples of each kind, for how long nothing happens, and for how long things may settle."""

    samples: int = 50
    idle_s: float = 60.0
    settle_s: float = 10.0

    @property
    def minutes(self) -> float:
        """How long one size takes, if it is not large: two idle times, four kinds of samples."""
        return (2 * self.idle_s + 4 * self.samples * _SAMPLE_S + _GROUND_S) / 60


QUICK = Rounds(samples=10, idle_s=15.0, settle_s=3.0)


def needed_mib(size: int) -> int:
    """Memory of the whole ground with so many nodes."""
    return int(_ALONE_MIB + _EACH_NODE_MIB * size)


def free_mib() -> int:
    """What new programs may take."""
    found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    assert found is not None
    return int(found[1]) // 1024


def read_sizes(text: str) -> tuple[int, ...]:
    """`500,1000` as numbers.

    Raises:
        ValueError: there is something else, or a size below 100: samples are of nodes of their own.
    """
    sizes = tuple(int(part) for part in text.split(","))
    if min(sizes) < SMALLEST:
        raise ValueError(f"at least {SMALLEST} nodes, or samples would meet")
    return sizes

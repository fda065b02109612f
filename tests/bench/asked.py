"""What a run of benches was asked for, on the command line and by the environment."""

from __future__ import annotations

import os
from typing import Final

import msgspec

SUITE: Final = os.environ.get("SLURM_SUITE", "trixie")
CLUSTER: Final = os.environ.get("SUNKPY_CLUSTER", "sunkpy")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The options, which `python -m tests.bench --help` explains."""

    quick: bool
    only: str
    sizes: tuple[int, ...]
    minutes: float
    seed: int
    since: str
    faults: bool

"""The options of a run of benches, from the command line and the environment."""

from __future__ import annotations

import os
from typing import Final

import msgspec

SUITE: Final = os.environ.get("SLURM_SUITE", "trixie")
CLUSTER: Final = os.environ.get("SUNKPY_CLUSTER", "sunkpy")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line, which `python -m tests.bench --help` explains."""

    quick: bool
    only: str
    sizes: tuple[int, ...]
    minutes: float
    seed: int

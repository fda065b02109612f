"""What a job has of each of its nodes, by Slurm's word."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """Of one node. Slurm did not say: `cpus` and `memory_mib` 0, `gres` None; see `core.model.gres:gres_counts`."""

    cpus: int = 0
    memory_mib: int = 0
    gres: Mapping[str, int] | None = None

"""What pods need, in Slurm's units.

Slurm counts whole CPUs and MiB, so requests are rounded up. A pod without requests is not free: it costs one CPU and
`MINIMUM_MEMORY_MIB`, the least that Slurm can hold for it. The devices that Slurm gives for `gres` are read in
`core.model.gres`, and shared among the pods of a job in `core.gang.seating.devices`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MINIMUM_CPUS: Final = 1
MINIMUM_MEMORY_MIB: Final = 128


def whole_cpus(needs: Mapping[str, int]) -> int:
    """Millicores → whole CPUs, rounded up, at least one."""
    return max(MINIMUM_CPUS, -(-needs.get("cpu", 0) // 1000))


def gres(needs: Mapping[str, int], *, gpu_resources: Mapping[str, str], gpu_type: str = "") -> str:
    """`tres_per_node` for the extended resources that Slurm knows: `gres/gpu:h100:2`, or empty.

    `gpu_type` is that of GPUs whose resource says none.
    """
    counts = count_gres(needs, gpu_resources)
    typed = {name: f"{name}:{gpu_type}" if gpu_type and name == "gpu" else name for name in counts}
    return ",".join(f"gres/{typed[name]}:{count}" for name, count in sorted(counts.items()) if count > 0)


def count_gres(needs: Mapping[str, int], gpu_resources: Mapping[str, str]) -> dict[str, int]:
    """How many of each GRES: extended resources by the name that Slurm knows, `gpu` or `gpu:h100`."""
    counts = dict.fromkeys(gpu_resources.values(), 0)
    for resource, name in gpu_resources.items():
        counts[name] += needs.get(resource, 0)
    return counts

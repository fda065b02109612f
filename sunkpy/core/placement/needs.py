"""What pods need, in Slurm's units.

Slurm counts whole CPUs and MiB, so requests are rounded up. A pod without requests costs one CPU and
`MINIMUM_MEMORY_MIB`, the least that Slurm can hold for it. `core.model.gres` reads which devices Slurm gave for `gres`;
`core.gang.devices.indices` shares them among the pods of a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sunkpy.core.model import quantity
from sunkpy.core.model.matching import Amounts

MINIMUM_CPUS: Final = 1
MINIMUM_MEMORY_MIB: Final = 128
_MIB: Final = 2**20


def whole_cpus(needs: Mapping[str, int]) -> int:
    """Return the needed millicores as whole CPUs, rounded up, at least one."""
    return max(MINIMUM_CPUS, -(-needs.get("cpu", 0) // 1000))


def rounded(needs: Mapping[str, int]) -> Amounts:
    """Return what Slurm holds for one pod: whole CPUs and whole MiB, and of each at least the minimum."""
    memory_mib = max(MINIMUM_MEMORY_MIB, quantity.mib_up(needs.get("memory", 0)))
    return {**needs, "cpu": whole_cpus(needs) * 1000, "memory": memory_mib * _MIB}


def counted(needs: Mapping[str, int], gpu_resources: Mapping[str, str], *, gpu_type: str = "") -> Amounts:
    """Return the part of the needs that Slurm counts: CPUs, memory, and each GRES by its name."""
    held = rounded(needs)
    return {"cpu": held["cpu"], "memory": held["memory"], **count_gres(needs, gpu_resources, gpu_type=gpu_type)}


def gres(needs: Mapping[str, int], *, gpu_resources: Mapping[str, str], gpu_type: str = "") -> str:
    """Return `tres_per_node` for the extended resources that Slurm knows: `gres/gpu:h100:2`; empty without any."""
    counts = count_gres(needs, gpu_resources, gpu_type=gpu_type)
    return ",".join(f"gres/{name}:{count}" for name, count in sorted(counts.items()) if count > 0)


def count_gres(needs: Mapping[str, int], gpu_resources: Mapping[str, str], *, gpu_type: str = "") -> Amounts:
    """Return how many of each GRES the pod needs, by the name that Slurm knows: `gpu` or `gpu:h100`.

    `gpu_type` is the type of GPUs whose resource names none.
    """
    names = {name: f"{name}:{gpu_type}" if gpu_type and name == "gpu" else name for name in gpu_resources.values()}
    counts = dict.fromkeys(names.values(), 0)
    for resource, name in gpu_resources.items():
        counts[names[name]] += needs.get(resource, 0)
    return counts

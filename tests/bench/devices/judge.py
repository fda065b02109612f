"""What was seen of devices, as values, and what of it must not have been.

Three sides say who has a device: the environment of the processes that run (of pods what their driver gave them, of
jobs what Slurm gave them), the claims, and the jobs that Slurm runs. None of them is believed for another.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tests.bench.chaos.record import Owner

_OF_A_POD = re.compile(r"GPU_DEVICE_\d+")
_INDICES = re.compile(r"IDX:([\d,-]+)")

Devices = frozenset[str]
Held = Mapping[Owner, Devices]


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Who had which devices at one moment, by one of the sides."""

    at_s: float
    side: str
    held: Held


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that runs: what its processes have, what its claims say, and what its job has."""

    name: str
    seen: Devices
    claimed: Devices
    given: Devices

    @property
    def is_equal(self) -> bool:
        """All three sides name the same devices, and some."""
        return bool(self.seen) and self.seen == self.claimed == self.given

    @property
    def text(self) -> str:
        """For a person who looks for the fault."""
        said = {"processes": self.seen, "claims": self.claimed, "job": self.given}
        return f"{self.name}: " + ", ".join(f"{side} {' '.join(sorted(has)) or 'none'}" for side, has in said.items())


def indices(gres: str) -> list[int]:
    """Of `gpu:h100:2(IDX:0,2-3)`; empty when none is said."""
    found: list[int] = []
    for part in ",".join(_INDICES.findall(gres)).split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1) if first else ()
    return found


def in_order(devices: Iterable[str]) -> list[str]:
    """Devices by the numbers in their names: the order in which Slurm counts them."""
    return sorted(devices, key=lambda name: [int(part) for part in re.findall(r"\d+", name)])


def devices_of(environ: Mapping[str, str], names: Sequence[str]) -> Devices:
    """What a process has by its environment; `names` are the devices in Slurm's order."""
    of_a_pod = [value for key, value in environ.items() if _OF_A_POD.fullmatch(key)]
    # As a part of a pod: of jobs the variable says nothing.
    of_a_pod += filter(None, environ.get("NVIDIA_VISIBLE_DEVICES", "").split(",") if "CHAOS_POD" in environ else ())
    return frozenset([*of_a_pod, *(names[index] for index in indices(f"IDX:{environ.get('SLURM_JOB_GPUS', '')}"))])


def shared(held: Held) -> dict[str, frozenset[Owner]]:
    """Devices with several owners."""
    owners: defaultdict[str, set[Owner]] = defaultdict(set)
    for owner, devices in held.items():
        for device in devices:
            owners[device].add(owner)
    return {device: frozenset(found) for device, found in owners.items() if len(found) > 1}


def double_owners(samples: Sequence[Sample]) -> list[str]:
    """Each device that had two owners in a sample, once for each pair, with when it was first seen."""
    first: dict[tuple[str, str, frozenset[Owner]], float] = {}
    for sample in samples:
        for device, owners in shared(sample.held).items():
            first.setdefault((sample.side, device, owners), sample.at_s)
    return [
        f"{device} by {side}: {' and '.join(sorted(owner.text for owner in owners))}, from {at_s:.2f}"
        for (side, device, owners), at_s in first.items()
    ]

"""Which of the devices that a job has on a node are whose: noted on each member when it is bound.

Slurm tells the indices of each node for the whole job. The members there share them in seat order, as many as each asks
for, and no index is given twice: one that is noted on a member which holds its node stays that member's. The device
plugin hands out devices by itself, and may choose otherwise; the note says what Slurm counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sunkpy.core import names
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.places import Seat
from sunkpy.core.gang.slots import places_of
from sunkpy.core.model import matching
from sunkpy.core.model.gres import Indices
from sunkpy.core.model.objects import Pod

_GPU: Final = "gpu"


def assign_devices(
    gang: Gang,
    seats: Mapping[str, Seat],
    devices: Mapping[str, Indices],
    *,
    gpu_resources: Mapping[str, str],
) -> dict[str, str]:
    """By uid, what is noted on each seated member: `0,1`; of a GRES other than `gpu` with its name: `nic:0`.

    A member has no note when it asks for none, or when Slurm has not told as many as it asks for.

    Args:
        devices: those of the job, by Slurm node.
        gpu_resources: extended resource → GRES name.
    """
    if not devices:
        return {}
    order = {place: at for at, place in enumerate(places_of(gang))}
    seated = sorted((p for p in gang.members if p.uid in seats), key=lambda pod: order.get(seats[pod.uid].place, 0))
    noted = {pod.uid: pod.annotations.get(names.ANNOTATION_GPU_INDICES, "") for pod in seated if pod.spec.node_name}
    free = {node: set(_words(indices)) for node, indices in devices.items()}
    for uid, text in noted.items():
        free.get(seats[uid].node, set()).difference_update(text.split(","))
    notes: dict[str, str] = {}
    for pod in seated:
        node = seats[pod.uid].node
        if pod.uid in noted or node not in devices:
            continue
        wanted = _counts(pod, gpu_resources)
        words = [word for gres, count in wanted.items() for word in _take(devices[node], gres, count, free[node])]
        if words and len(words) == sum(wanted.values()):
            free[node].difference_update(words)
            notes[pod.uid] = ",".join(words)
    return notes


def _counts(pod: Pod, gpu_resources: Mapping[str, str]) -> dict[str, int]:
    needs = matching.pod_requests(pod.spec)
    counts: dict[str, int] = {}
    for resource, gres in sorted(gpu_resources.items(), key=lambda item: (item[1] != _GPU, item)):
        if needs.get(resource, 0) > 0:
            counts[gres] = counts.get(gres, 0) + needs[resource]
    return counts


def _take(indices: Indices, gres: str, count: int, free: set[str]) -> list[str]:
    return [word for word in _words({gres: indices.get(gres, ())}) if word in free][:count]


def _words(indices: Indices) -> Iterable[str]:
    return (str(at) if gres == _GPU else f"{gres}:{at}" for gres, several in indices.items() for at in several)

"""Divides a job's devices on a node among the members there. Each member gets a note of its devices when it is bound:
`sunkpy.dev/gpu-indices`.

Slurm reports the device indices of the whole job on each node. The members there get them in seat order, as many as
each asks for, and no index twice. A bound member keeps its noted devices, if the job has these on its node; a
replacement job may have others. A usual device plugin chooses devices by itself and may choose others; the note says
what Slurm counts, and a container can read it by the downward API. `core.placement.needs:gres` makes the request, and
`core.model.gres` reads Slurm's answer.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final

from sunkpy.core import names
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.seating.seating import Seat
from sunkpy.core.gang.seating.slots import seats_of
from sunkpy.core.model import matching
from sunkpy.core.model.gres import Indices, gres_name
from sunkpy.core.model.objects import Pod
from sunkpy.core.placement.needs import count_gres

_GPU: Final = "gpu"

_Place = tuple[str, int]
"""A GRES by its name, and an index."""


def assign_devices(
    gang: Gang,
    seats: Mapping[str, Seat],
    devices: Mapping[str, Indices],
    *,
    gpu_resources: Mapping[str, str],
) -> dict[str, str]:
    """Return the note of GPU indices for each seated member (by uid): `0,1`. A GRES other than `gpu` has its name
    before the index: `nic:0`; a type that the member asks for is part of the name: `gpu:h100:0`.

    Only members on nodes whose devices Slurm has reported get a note, and only if Slurm has reported as many devices as
    they ask for.

    Args:
        devices: the job's devices, by Slurm node.
        gpu_resources: extended resource → GRES name.
    """
    if not devices:
        return {}
    order = {seat: at for at, seat in enumerate(seats_of(gang))}
    seated = [pod for pod in gang.members if pod.uid in seats and seats[pod.uid].node in devices]
    seated.sort(key=lambda pod: order.get(seats[pod.uid].id, 0))
    wanted = {pod.uid: _counts(pod, gpu_resources) for pod in seated}
    free = {node: _words(indices) for node, indices in devices.items()}
    notes: dict[str, str] = {}
    for pod in (each for each in seated if each.spec.node_name):
        noted, node = noted_on(pod).split(","), seats[pod.uid].node
        own = {free[node][word] for word in noted if word in free[node]}
        if len(own) == len(noted) == sum(wanted[pod.uid].values()):
            free[node] = _without(free[node], noted)
            notes[pod.uid] = noted_on(pod)
    for pod in (each for each in seated if each.uid not in notes):
        node = seats[pod.uid].node
        words = [word for gres, n in wanted[pod.uid].items() for word in _take(devices[node], gres, n, free[node])]
        if words and len(words) == sum(wanted[pod.uid].values()):
            free[node] = _without(free[node], words)
            notes[pod.uid] = ",".join(words)
    return notes


def noted_on(pod: Pod) -> str:
    """Return the note of GPU indices that is on the pod now."""
    return pod.annotations.get(names.ANNOTATION_GPU_INDICES, "")


def noted_indices(note: str) -> Indices:
    """Return the indices in a note, by GRES; those of a GRES with a type also under its name without the type."""
    found: Indices = {}
    for word in filter(None, note.split(",")):
        gres, _, index = word.rpartition(":")
        for name in dict.fromkeys((gres or _GPU, gres_name(gres or _GPU))):
            found[name] = (*found.get(name, ()), int(index))
    return found


def _counts(pod: Pod, gpu_resources: Mapping[str, str]) -> dict[str, int]:
    gpus_first = dict(sorted(gpu_resources.items(), key=lambda item: (gres_name(item[1]) != _GPU, item)))
    return count_gres(matching.pod_requests(pod.spec), gpus_first)


def _take(indices: Indices, gres: str, count: int, free: Container[str]) -> list[str]:
    return [word for word in _words({gres: indices.get(gres, ())}) if word in free][:count]


def _words(indices: Indices) -> dict[str, _Place]:
    """Return each word by which a note may name one of these devices → the device."""
    return {
        str(at) if gres == _GPU else f"{gres}:{at}": (gres_name(gres), at)
        for gres, several in indices.items()
        for at in several
    }


def _without(words: Mapping[str, _Place], taken: Iterable[str]) -> dict[str, _Place]:
    """Return the words of all devices except the taken ones. A device may have several words."""
    gone = {words[word] for word in taken}
    return {word: place for word, place in words.items() if place not in gone}

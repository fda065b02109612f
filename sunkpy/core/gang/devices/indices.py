"""Divides the devices that a job has on a node among the gang's pods there. When a pod is bound, its device indices are
written on it, in the annotation `sunkpy.dev/gpu-indices`.

Slurm reports the device indices of the whole job on each node. The pods there get them in the order of their ranks,
each as many as it asks for, and no index twice. A bound pod keeps the devices in its annotation, if the job has these
on its node; a replacement job may have others. The annotation says what Slurm counts. A usual device plugin chooses
devices by itself, so the pod may use others than the annotation says. A container can read the annotation by the
downward API. `core.placement.needs:gres` makes the request, and `core.model.gres` reads Slurm's answer.
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
_DIGITS: Final = 6
"""The most digits of a device index."""

_Place = tuple[str, int]
"""A GRES by its name, and an index."""


def assign_devices(
    gang: Gang,
    seats: Mapping[str, Seat],
    devices: Mapping[str, Indices],
    *,
    gpu_resources: Mapping[str, str],
) -> dict[str, str]:
    """Return, by pod uid, the text of the annotation with the device indices of each pod, such as `0,1` for two GPUs.
    For a GRES other than `gpu` its name stands before the index: `nic:0`. If the pod asks for a type of GRES, the type
    stands there, too: `gpu:h100:0`.

    A pod gets such a text only if Slurm has reported the job's devices on its node, and as many devices as the pod asks
    for.

    Args:
        seats: by pod uid, the pod's seat (its room in the job) with the Slurm node.
        devices: the job's devices, by Slurm node.
        gpu_resources: extended resource → GRES name.
    """
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
    """Return the text of the annotation with device indices that the pod has now; empty if it has none."""
    return pod.annotations.get(names.ANNOTATION_GPU_INDICES, "")


def noted_indices(note: str) -> Indices:
    """Return the device indices in the text of a pod's annotation, by GRES: `0,1` are those of `gpu`. The indices of a
    GRES with a type, as in `gpu:h100:0`, stand under `gpu:h100` and also under `gpu`. What is no index is left out,
    because somebody else may have written the text.
    """
    found: Indices = {}
    for word in note.split(","):
        gres, _, index = word.rpartition(":")
        if not (index.isascii() and index.isdecimal() and len(index) <= _DIGITS):
            continue
        for name in dict.fromkeys((gres or _GPU, gres_name(gres or _GPU))):
            found[name] = (*found.get(name, ()), int(index))
    return found


def _counts(pod: Pod, gpu_resources: Mapping[str, str]) -> dict[str, int]:
    gpus_first = dict(sorted(gpu_resources.items(), key=lambda item: (gres_name(item[1]) != _GPU, item)))
    return count_gres(matching.pod_requests(pod.spec), gpus_first)


def _take(indices: Indices, gres: str, count: int, free: Container[str]) -> list[str]:
    return [word for word in _words({gres: indices.get(gres, ())}) if word in free][:count]


def _words(indices: Indices) -> dict[str, _Place]:
    """Return all words by which a pod's annotation can name one of these devices (`0`, `gpu:h100:0`), each with the
    device that it names: a GRES and an index.
    """
    return {
        str(at) if gres == _GPU else f"{gres}:{at}": (gres_name(gres), at)
        for gres, several in indices.items()
        for at in several
    }


def _without(words: Mapping[str, _Place], taken: Iterable[str]) -> dict[str, _Place]:
    """Return the words without those of the devices that are taken. A word is a name of a device, and a device may have
    several: if one of its names is in `taken`, all its names are left out.
    """
    gone = {words[word] for word in taken}
    return {word: place for word, place in words.items() if place not in gone}

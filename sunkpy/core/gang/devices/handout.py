"""Which GPUs the device plugin of a node hands to the container for which the kubelet asks.

The kubelet says how many, neither for which pod nor for which container. So the scheduler binds pods of one job at a
time to a node: the next job's wait until the kubelet has admitted these (`holds_up`). Each has one container with GPUs.
On the pod stands which GPUs Slurm gave to its job. Whatever does not agree is refused, and the pod then fails.

Source: kubelet pkg/kubelet/cm/devicemanager/manager.go (devicesToAllocate, Allocate at admission, before the status
has a start time).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

import msgspec

from sunkpy.core import names
from sunkpy.core.model import matching, quantity
from sunkpy.core.model.objects import Pod, PodSpec


class HandoutRefused(Exception):
    """No GPU is handed out; the text says why, and is what the pod then shows."""


class DeviceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A device file, and the uuid that the driver gives for it."""

    file: str
    uuid: str = ""

    def is_called(self, name: str) -> bool:
        """True if `name` is the uuid of the device, or the name of its file (slurmd uses it where it knows no uuid)."""
        return name in (self.uuid, PurePosixPath(self.file).name)


def gpus_asked(spec: PodSpec, resource: str) -> list[int]:
    """How many GPUs each container of a pod asks for; containers that ask for none are left out.

    Raises:
        BadQuantity: an amount cannot be read.
    """
    asked = (matching.wanted(each.resources) for each in matching.containers_of(spec))
    counts = (quantity.whole(amounts.get(resource, "0")) for amounts in asked)
    return [count for count in counts if count]


def holds_up(pod: Pod, resource: str) -> bool:
    """True if the pod is on a node and the kubelet has not asked for its GPUs yet."""
    is_admitted = pod.is_finished or pod.status.start_time is not None
    return bool(pod.spec.node_name) and not is_admitted and bool(gpus_asked(pod.spec, resource))


def hand_out(
    pods: Collection[Pod],
    gpus: Iterable[DeviceFile],
    *,
    count: int,
    resource: str,
    schedulers: Collection[str],
    served: Collection[str] = (),
) -> tuple[Pod, tuple[DeviceFile, ...]]:
    """The pod for which the kubelet asks, and its GPUs.

    Args:
        pods: those of the node, as the apiserver has them now.
        gpus: those of the node.
        count: how many the kubelet asks for.
        resource: as what they are asked for.
        schedulers: names of the scheduler that notes GPUs on pods.
        served: uids of pods that have got theirs, or may have before this plugin started.

    Raises:
        Refused: it is not certain which pod it is, or that it may have what is noted on it.
    """
    waiting = [pod for pod in pods if holds_up(pod, resource) and pod.uid not in served]
    for pod in waiting:
        if pod.spec.scheduler_name not in schedulers:
            raise HandoutRefused(
                f"pod {_name(pod)} asks for {resource} and is not of scheduler {' or '.join(schedulers)}"
            )
    if len({pod.annotations.get(names.ANNOTATION_JOB_ID) for pod in waiting}) > 1:
        raise HandoutRefused(f"pods of several jobs wait for {resource}: {', '.join(sorted(map(_name, waiting)))}")
    asking = [pod for pod in waiting if gpus_asked(pod.spec, resource) == [count]]
    if not asking:
        raise HandoutRefused(f"no pod that waits here has one container that asks for {count} {resource}")
    pod = min(asking, key=lambda each: (each.metadata.creation_timestamp, each.name))
    # On all other pods the annotation is their owner's own words.
    owners = (each for each in pods if each.spec.scheduler_name in schedulers and gpus_asked(each.spec, resource))
    return pod, _noted(pod, count, tuple(gpus), owners)


def _noted(pod: Pod, count: int, gpus: tuple[DeviceFile, ...], owners: Iterable[Pod]) -> tuple[DeviceFile, ...]:
    noted = devices_on(pod)
    if len(noted) != count:
        raise HandoutRefused(
            f"{names.ANNOTATION_DEVICES} of pod {_name(pod)} names {len(noted)} devices, and it asks for {count}"
        )
    for other in owners:
        if other.uid != pod.uid and not other.is_finished and (both := noted & devices_on(other)):
            raise HandoutRefused(
                f"pod {_name(other)} still has {', '.join(sorted(both))}, which is noted on pod {_name(pod)}"
            )
    found = tuple(gpu for gpu in gpus if any(gpu.is_called(name.rpartition("/")[2]) for name in noted))
    if len(found) != count:
        raise HandoutRefused(f"of {', '.join(sorted(noted))} on pod {_name(pod)}, {len(found)} are on this node")
    return found


def devices_on(pod: Pod) -> frozenset[str]:
    """The devices noted on the pod, each as `<node>/<device>`."""
    return frozenset(filter(None, pod.annotations.get(names.ANNOTATION_DEVICES, "").split(",")))


def _name(pod: Pod) -> str:
    return "/".join(pod.key)

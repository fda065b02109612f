"""Which GPUs sunkpy's device plugin hands to a container of a node.

The kubelet tells the plugin how many GPUs a container wants, but not which pod or container it is. So the scheduler
binds pods with such GPUs to a node for one job at a time: pods of the next job wait until the kubelet has admitted the
pods of this one (`holds_up`). Only one container of a pod may ask for GPUs. The pod's annotation says which GPUs Slurm
gave to its job. If the annotation, the wanted number and the GPUs of the node do not agree, the plugin refuses, and the
pod fails.

Source: kubelet pkg/kubelet/cm/devicemanager/manager.go (devicesToAllocate, Allocate at admission, before the status has
a start time).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

import msgspec

from sunkpy.core import names
from sunkpy.core.model import matching, quantity
from sunkpy.core.model.objects import Pod, PodSpec


class HandoutRefused(Exception):
    """The device plugin hands out no GPU to the container that asks. The text says why, and the pod's status shows that
    text.
    """


class DeviceFile(msgspec.Struct, frozen=True, kw_only=True):
    """The path of a GPU's device file, and the uuid that the GPU's driver reports."""

    file: str
    uuid: str = ""

    def is_called(self, name: str) -> bool:
        """True if `name` is the uuid of the GPU, or the name of its device file, which slurmd uses where it knows no
        uuid.
        """
        return name in (self.uuid, PurePosixPath(self.file).name)


def gpus_asked(spec: PodSpec, resource: str) -> list[int]:
    """Return how many GPUs each container of a pod asks for. Containers that ask for none are left out. `resource`: the
    extended resource that counts the GPUs.

    Raises:
        BadQuantity: an amount cannot be read.
    """
    asked = (matching.wanted(each.resources) for each in matching.containers_of(spec))
    counts = (quantity.whole(amounts.get(resource, "0")) for amounts in asked)
    return [count for count in counts if count]


def holds_up(pod: Pod, resource: str) -> bool:
    """True if the pod is on a node and asks for GPUs (`resource`), and the kubelet has not admitted it yet. Until then,
    pods of other jobs that ask for these GPUs have to wait.
    """
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
    """Find the pod for which the kubelet asks the device plugin for GPUs. Return the pod and the GPUs that its
    annotation names.

    Args:
        pods: all pods of the node, just read from the apiserver.
        gpus: all GPUs of the node.
        count: how many GPUs the kubelet asks for.
        resource: the extended resource for these GPUs.
        schedulers: the scheduler names that pods of sunkpy have; on pods of other schedulers the annotation proves
            nothing.
        served: uids of pods that have got their GPUs, or may have got them before this plugin started.

    Raises:
        HandoutRefused: it is not certain which pod it is, or whether the pod may have the GPUs in its annotation.
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
    return pod, _gpus_in_note(pod, count, tuple(gpus), owners)


def _gpus_in_note(pod: Pod, count: int, gpus: tuple[DeviceFile, ...], owners: Iterable[Pod]) -> tuple[DeviceFile, ...]:
    noted = devices_on(pod)
    if len(noted) != count:
        raise HandoutRefused(
            f"{names.ANNOTATION_DEVICES} of pod {_name(pod)} names {len(noted)} devices, and the pod asks for {count}"
        )
    for other in owners:
        if other.uid != pod.uid and not other.is_finished and (both := noted & devices_on(other)):
            raise HandoutRefused(
                f"pod {_name(other)} still has {', '.join(sorted(both))}, which is noted on pod {_name(pod)}"
            )
    found = tuple(gpu for gpu in gpus if any(gpu.is_called(name.rpartition("/")[2]) for name in noted))
    if len(found) != count:
        raise HandoutRefused(
            f"pod {_name(pod)} has {', '.join(sorted(noted))}, and {len(found)} of these are on this node"
        )
    return found


def devices_on(pod: Pod) -> frozenset[str]:
    """Return the names of the devices in the pod's annotation, each as `<node>/<device>`; empty if there is no
    annotation.
    """
    return frozenset(filter(None, pod.annotations.get(names.ANNOTATION_DEVICES, "").split(",")))


def _name(pod: Pod) -> str:
    return "/".join(pod.key)

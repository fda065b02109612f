"""Watches the pods of other schedulers that are on nodes: daemons, slurmd pods and all others.

A node that is full of such pods must not be offered to a job: Slurm would start the job, perhaps preempt others for it,
and the kubelet would refuse the pod. Pods may also want to be near such pods, or away from them.

A large cluster has tens of thousands of such pods. So of each pod only what matters is kept, in a kilobyte or less, and
the pods of one template share it.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Final, TypeVar, cast

import cachetools
import msgspec

from sunkpy.core.gang.limits import MOST_LINES, MOST_TO_PODS, is_short
from sunkpy.core.model.objects import Affinity, Meta, Pod, PodAffinity, PodSpec
from sunkpy.core.placement.needs import as_much
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer, Tell

T = TypeVar("T")

_MOST_SHARED: Final = 8192
_NOTHING: Final[dict[str, str]] = {}


def pods_of_others(kube: Kube, scheduler_names: Collection[str], tell: Tell) -> Informer[Pod]:
    """Return an informer (watch) of the pods that name none of these schedulers, are on nodes and have not ended. Of
    each pod only the parts that `Cut` keeps are stored.
    """
    where = [f"spec.schedulerName!={name}" for name in scheduler_names]
    where += ["spec.nodeName!=", "status.phase!=Succeeded", "status.phase!=Failed"]
    return Informer(kube, paths.ALL_PODS, Pod, field_selector=",".join(where), keep=Cut(), tell=tell, are_large=True)


class Cut:
    """A function that cuts a pod to the parts that matter for other pods: its labels, anti-affinity terms, requests,
    host ports and node. Equal parts of different pods are stored once.
    """

    def __init__(self) -> None:
        self._known: cachetools.LRUCache[bytes, object] = cachetools.LRUCache(_MOST_SHARED)

    def __call__(self, pod: Pod) -> Pod:
        """Return a copy of the pod that has only the parts that matter for other pods."""
        meta = pod.metadata
        container = msgspec.structs.replace(as_much(pod.spec), ports=pod.spec.host_ports[:MOST_LINES])
        # This scheduler refuses its own pods if they have too many terms; other schedulers' pods may have any number.
        few = PodAffinity(required=tuple(filter(is_short, pod.spec.anti_affinity_terms[:MOST_TO_PODS])))
        return Pod(
            metadata=Meta(
                name=meta.name,
                namespace=sys.intern(meta.namespace),
                uid=meta.uid,
                resource_version=meta.resource_version,
                deletion_timestamp=meta.deletion_timestamp,
                labels=self._shared(pod.labels),
                annotations=_NOTHING,
            ),
            spec=PodSpec(
                node_name=sys.intern(pod.spec.node_name),
                scheduler_name=sys.intern(pod.spec.scheduler_name),
                containers=self._shared((container,)),
                affinity=self._shared(Affinity(pod_anti_affinity=few)) if few.required else None,
                overhead=_NOTHING,
                node_selector=_NOTHING,
            ),
        )

    def _shared(self, value: T) -> T:
        """Return an object equal to `value` that is already stored, if there is one, to save memory. If there is none,
        store `value` and return it.
        """
        return cast("T", self._known.setdefault(msgspec.json.encode(value, order="sorted"), value))

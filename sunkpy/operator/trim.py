"""Trims Pods for the watch cache: keeps only what the operator reads, and lets equal parts share one object.
`kube.trim` does so for Nodes.

The watch caches are most of the operator's memory. Of a pod that is not a slurmd pod, only its requests, its node, its
phase and its job stay. Pods of one template have equal requests, so they share one value.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator

import msgspec

from sunkpy.core import names
from sunkpy.core.health.verification import is_failure, last_words
from sunkpy.core.model.objects import (
    Condition,
    Container,
    ContainerState,
    ContainerStatus,
    Meta,
    Node,
    Pod,
    PodSpec,
    PodStatus,
    Terminated,
)
from sunkpy.core.model.slurmd import is_slurmd
from sunkpy.core.placement.needs import as_much
from sunkpy.kube.trim import of_types, slurmd_meta

_READ_CONDITIONS = frozenset({"Ready", "DisruptionTarget", *names.SLURM_CONDITIONS})
_KINDS = 4096  # different requests, and lists of conditions, to share


def is_heartbeat(old: Node, new: Node) -> bool:
    """True if nothing but the resource version differs between these two trimmed Nodes."""
    same_version = msgspec.structs.replace(new.metadata, resource_version=old.metadata.resource_version)
    return (old.metadata, old.spec, old.status) == (same_version, new.spec, new.status)


def trim_pod(pod: Pod) -> Pod:
    """Return the parts of a pod that the operator reads: most of a slurmd pod; of any other pod its name, its requests,
    its node, its phase, and the job in its annotation.
    """
    meta, status = pod.metadata, pod.status
    room = _room(msgspec.json.encode(as_much(pod.spec)))
    spec = PodSpec(containers=(room,), node_name=sys.intern(pod.spec.node_name))
    if not is_slurmd(pod):
        job = meta.annotations.get(names.ANNOTATION_JOB_ID)
        kept = Meta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            annotations={names.ANNOTATION_JOB_ID: job} if job is not None else {},
        )
        return Pod(metadata=kept, spec=spec, status=PodStatus(phase=sys.intern(status.phase)))
    return Pod(
        metadata=slurmd_meta(meta),
        # Its node is in the affinity as long as no scheduler has bound it.
        spec=spec if spec.node_name else msgspec.structs.replace(spec, affinity=pod.spec.affinity),
        status=PodStatus(
            phase=sys.intern(status.phase),
            reason=status.reason,
            message=status.message,
            container_statuses=tuple(_last_words(status.container_statuses)),
            conditions=_one_state(tuple(map(_undated, of_types(status.conditions, _READ_CONDITIONS)))),
        ),
    )


def _last_words(containers: tuple[ContainerStatus, ...]) -> Iterator[ContainerStatus]:
    """Yield the slurmd container's status, cut to readiness, restarts and since when it runs; nothing if it is ready
    and never restarted. If it is not ready or its check failed, also what it wrote at its last end.
    """
    for each in containers:
        if each.name != names.SLURMD_CONTAINER or (each.ready and not each.restart_count):
            continue
        words = last_words(each) if not each.ready or is_failure(each) else ""
        last = ContainerState(terminated=Terminated(message=words)) if words else ContainerState()
        yield ContainerStatus(
            name=each.name,
            ready=each.ready,
            restart_count=each.restart_count,
            state=ContainerState(running=each.state.running),
            last_state=last,
        )


def _undated(condition: Condition) -> Condition:
    """Return a pod's condition without its time, which nobody reads: on the Node, the same condition gets a time of its
    own.
    """
    return msgspec.structs.replace(condition, last_transition_time=None)


@functools.lru_cache(maxsize=_KINDS)
def _room(taken: bytes) -> Container:
    return msgspec.json.decode(taken, type=Container)


@functools.lru_cache(maxsize=_KINDS)
def _one_state(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    return conditions

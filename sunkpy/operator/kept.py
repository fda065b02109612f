"""What the operator keeps of each Node and Pod: what something here reads, and of equal parts one.

The watch caches are what the operator's memory is made of. A typed decode has left out most of an object already
(images, managed fields, volumes); this leaves out annotations and conditions of others, and from pods that are not
slurmd pods all but the room they take. Pods of a kind ask the same, so they share what says so.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import (
    Condition,
    Container,
    Meta,
    Node,
    NodeStatus,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
)
from sunkpy.core.model.slurmd import is_slurmd

_READ_CONDITIONS = frozenset({"Ready", "DisruptionTarget", *names.SLURM_CONDITIONS})
_KINDS = 4096  # of pods, by what they ask; of conditions, by what they say


def keep_node(node: Node) -> Node:
    """Labels stay whole: a template may select by any."""
    meta, status = node.metadata, node.status
    return msgspec.structs.replace(
        node,
        metadata=Meta(
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
            creation_timestamp=meta.creation_timestamp,
            deletion_timestamp=meta.deletion_timestamp,
            labels=_interned(meta.labels),
            annotations=_ours(meta.annotations),
        ),
        status=NodeStatus(
            allocatable=_interned(status.allocatable),
            conditions=_read(status.conditions),
            addresses=tuple(address for address in status.addresses if address.type == "InternalIP"),
        ),
    )


def is_heartbeat(old: Node, new: Node) -> bool:
    """Of two kept Nodes: the kubelet has written, and nothing that is read here is another."""
    same_version = msgspec.structs.replace(new.metadata, resource_version=old.metadata.resource_version)
    return (old.metadata, old.spec, old.status) == (same_version, new.spec, new.status)


def keep_pod(pod: Pod) -> Pod:
    """Of a slurmd pod what is decided on, of any other the room that it takes and the job that it notes."""
    meta, status = pod.metadata, pod.status
    spec = msgspec.structs.replace(
        _room(msgspec.json.encode(_asked(pod.spec))), node_name=sys.intern(pod.spec.node_name)
    )
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
        metadata=Meta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            creation_timestamp=meta.creation_timestamp,
            deletion_timestamp=meta.deletion_timestamp,
            labels=_interned(_ours(meta.labels)),
            annotations=_ours(meta.annotations),
            owner_references=_one_owner(meta.owner_references),
        ),
        # Its node is in the affinity as long as no scheduler has bound it.
        spec=spec if spec.node_name else msgspec.structs.replace(spec, affinity=pod.spec.affinity),
        status=PodStatus(
            phase=sys.intern(status.phase),
            reason=status.reason,
            message=status.message,
            conditions=_one_state(tuple(map(_undated, _read(status.conditions)))),
        ),
    )


def _read(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    return tuple(condition for condition in conditions if condition.type in _READ_CONDITIONS)


def _undated(condition: Condition) -> Condition:
    """Nobody asks since when a pod is so; on its Node another time is written."""
    return msgspec.structs.replace(condition, last_transition_time=None)


def _asked(spec: PodSpec) -> PodSpec:
    """What the requests of a pod follow from (`core.model.matching.pod_requests`)."""
    return PodSpec(
        containers=tuple(map(_resources, spec.containers)),
        init_containers=tuple(map(_resources, spec.init_containers)),
        overhead=spec.overhead,
        resources=spec.resources,
    )


def _resources(container: Container) -> Container:
    return Container(resources=container.resources, restart_policy=container.restart_policy)


@functools.lru_cache(maxsize=_KINDS)
def _room(asked: bytes) -> PodSpec:
    return msgspec.json.decode(asked, type=PodSpec)


@functools.lru_cache(maxsize=_KINDS)
def _one_state(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    return conditions


@functools.lru_cache(maxsize=_KINDS)
def _one_owner(owners: tuple[OwnerReference, ...]) -> tuple[OwnerReference, ...]:
    return owners


def _ours(texts: Mapping[str, str]) -> dict[str, str]:
    return {sys.intern(key): text for key, text in texts.items() if key.startswith(names.PREFIX)}


def _interned(texts: Mapping[str, str]) -> dict[str, str]:
    return {sys.intern(key): sys.intern(text) for key, text in texts.items()}

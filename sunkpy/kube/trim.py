"""Trims Nodes and slurmd pods for watch caches: there are as many of them as machines, and each process keeps them all.

The typed decode has already dropped most of an object (images, managed fields, volumes). What is left is mostly texts
of other programs: a Node takes 14 kB as clouds and device plugins write it, and a quarter of that after trimming.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Set

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import (
    Condition,
    Meta,
    Node,
    NodeInfo,
    NodeStatus,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
)

_OF_NODES: Set[str] = frozenset({"Ready", *names.SLURM_CONDITIONS})
_OF_SLURMD_PODS: Set[str] = frozenset({"Ready", "ContainersReady", names.READINESS_GATE, *names.SLURM_CONDITIONS})
_MARKS: Set[str] = frozenset(names.AUTOSCALER_MARKS)
_NOTHING: Set[str] = frozenset()
_NODESETS = 4096


def trim_node(node: Node, *, signals: Set[str] = _NOTHING, annotations: Set[str] = _NOTHING) -> Node:
    """Return the Node with only what sunkpy's operator and scheduler read. All labels stay, because the template of a
    NodeSet or a pod may select by any label.

    `signals`: condition types to keep, because health rules read them. `annotations`: those to keep besides sunkpy's
    own and those by which autoscalers mark Nodes.
    """
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
            annotations=_ours(meta.annotations, annotations | _MARKS),
        ),
        status=NodeStatus(
            allocatable=_interned(status.allocatable),
            conditions=of_types(status.conditions, _OF_NODES | signals),
            node_info=NodeInfo(boot_id=status.boot_id),
            addresses=tuple(address for address in status.addresses if address.type == "InternalIP"),
            daemon_endpoints=status.daemon_endpoints,
        ),
    )


def trim_slurmd(pod: Pod) -> Pod:
    """Return a slurmd pod with what syncer and scheduler read: NodeSet, node, and what Slurm says of its Slurm node."""
    status = pod.status
    return Pod(
        metadata=slurmd_meta(pod.metadata),
        spec=PodSpec(node_name=sys.intern(pod.spec.node_name)),
        status=PodStatus(
            phase=sys.intern(status.phase),
            pod_ip=status.pod_ip,
            start_time=status.start_time,
            conditions=of_types(status.conditions, _OF_SLURMD_PODS),
        ),
    )


def slurmd_meta(meta: Meta) -> Meta:
    """Return a slurmd pod's metadata with only sunkpy's own labels and annotations."""
    return Meta(
        name=meta.name,
        namespace=sys.intern(meta.namespace),
        uid=meta.uid,
        resource_version=meta.resource_version,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        labels=_interned(_ours(meta.labels)),
        annotations=_ours(meta.annotations),
        owner_references=_one_owner(meta.owner_references),
    )


def of_types(conditions: tuple[Condition, ...], types: Set[str]) -> tuple[Condition, ...]:
    """Return the conditions of these types."""
    return tuple(each for each in conditions if each.type in types)


@functools.lru_cache(maxsize=_NODESETS)
def _one_owner(owners: tuple[OwnerReference, ...]) -> tuple[OwnerReference, ...]:
    return owners


def _ours(texts: Mapping[str, str], more: Set[str] = _NOTHING) -> dict[str, str]:
    return {sys.intern(key): text for key, text in texts.items() if key.startswith(names.PREFIX) or key in more}


def _interned(texts: Mapping[str, str]) -> dict[str, str]:
    return {sys.intern(key): sys.intern(text) for key, text in texts.items()}

"""Builds the JSON bodies of patches: what has to change, mostly with the uid and resourceVersion on which that was
decided, so that the apiserver refuses to patch a changed object.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sunkpy.core.model.conditions import as_json, stamped
from sunkpy.core.model.objects import Condition, Node, Pod
from sunkpy.core.nodeset.node_mark import Changes
from sunkpy.core.nodeset.node_side import NodePatch
from sunkpy.core.nodeset.spec import NodeSetStatus

Json = dict[str, object]

_NONE: Changes = {}


def pod_metadata(
    pod: Pod, *, annotations: Changes = _NONE, labels: Changes = _NONE, owner: Json | None = None, as_seen: bool
) -> Json:
    """Return a patch of this pod's labels, annotations and owner. It names the pod's uid, so it changes no later pod of
    this name. `as_seen`: the apiserver refuses it if the pod has changed.
    """
    metadata: Json = {"uid": pod.uid}
    if annotations:
        metadata["annotations"] = dict(annotations)
    if labels:
        metadata["labels"] = dict(labels)
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    if as_seen:
        metadata["resourceVersion"] = pod.metadata.resource_version
    return {"metadata": metadata}


def node_object(node: Node, patch: NodePatch) -> Json:
    """Return a patch of labels, annotations, cordon and taints of a Node. The apiserver refuses it if the Node has
    changed since it was read.
    """
    metadata: Json = {"uid": node.uid, "resourceVersion": node.metadata.resource_version}
    if patch.labels:
        metadata["labels"] = dict(patch.labels)
    if patch.annotations:
        metadata["annotations"] = dict(patch.annotations)
    body: Json = {"metadata": metadata}
    spec: Json = {}
    if patch.unschedulable is not None:
        spec["unschedulable"] = patch.unschedulable
    if patch.taints is not None:
        spec["taints"] = msgspec.to_builtins(patch.taints)
    return {**body, "spec": spec} if spec else body


def node_status(node: Node, patch: NodePatch, now: str) -> Json:
    """Return a strategic merge patch of some conditions of a Node, which leaves the conditions of the kubelet alone."""
    merged = [_node_condition(node.condition(condition.type), condition, now) for condition in patch.conditions]
    removed: list[Json] = [{"$patch": "delete", "type": type_} for type_ in patch.gone_conditions]
    return {"status": {"conditions": [*merged, *removed]}}


def _node_condition(old: Condition | None, new: Condition, now: str) -> Json:
    return {**as_json(stamped(new, old, now)), "lastHeartbeatTime": now}


def nodeset_status(status: NodeSetStatus) -> Json:
    """Return a patch of all status fields of a NodeSet that the operator writes. Zeros and an empty list of conditions
    are written, too, so that no old value stays.
    """
    numbers: Mapping[str, object] = {
        "desiredNumberScheduled": status.desired_number_scheduled,
        "numberFeasible": status.number_feasible,
        "currentNumberScheduled": status.current_number_scheduled,
        "numberReady": status.number_ready,
        "numberDrain": status.number_drain,
        "numberRunning": status.number_running,
        "numberUnhealthy": status.number_unhealthy,
        "numberMisscheduled": status.number_misscheduled,
        "numberUnavailable": status.number_unavailable,
        "updatedNumberScheduled": status.updated_number_scheduled,
        "observedGeneration": status.observed_generation,
        "selector": status.selector,
    }
    return {"status": {**numbers, "conditions": [as_json(condition) for condition in status.conditions]}}

"""Slurmd pods that were left behind, as by `kubectl delete nodeset --cascade=orphan`, and who may take them over.

As other controllers do: the NodeSet of the same name, when it wants a pod of that name on that node. Jobs run in it, so
what is not surely such a pod is left alone.
"""

from __future__ import annotations

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.nodeset.spec import NodeSet

Json = dict[str, object]


def is_left_behind(nodeset: NodeSet, pod: Pod, *, node: str) -> bool:
    """The pod runs on this node as one of a NodeSet of this name, and is nobody's."""
    expected = {
        names.LABEL_NODESET: nodeset.name,
        names.LABEL_CLUSTER: nodeset.spec.cluster,
        names.LABEL_ROLE: names.ROLE_COMPUTE,
        names.LABEL_SLURM_NODE: pod.name,
    }
    is_alike = expected.items() <= pod.labels.items() and pod.metadata.namespace == nodeset.metadata.namespace
    is_there = pod.spec.node_name == node and not pod.is_deleting and not pod.is_finished
    return is_alike and is_there and not pod.metadata.owner_references


def owned(nodeset: NodeSet, pod: Pod) -> Json:
    """The patch that makes it one of the NodeSet's, only if nothing else of it has changed."""
    metadata: Json = {"uid": pod.uid, "resourceVersion": pod.metadata.resource_version}
    return {"metadata": {**metadata, "ownerReferences": [nodeset.controller_reference]}}

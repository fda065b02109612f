"""Slurmd pods that were left behind, as by `kubectl delete nodeset --cascade=orphan`, and who may take them over.

As other controllers do: the NodeSet of the same name, when it wants a pod of that name on that node. Jobs run in it, so
a pod is taken over only if it surely is such a pod.
"""

from __future__ import annotations

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.nodeset.slurmd_pod import pod_labels
from sunkpy.core.nodeset.spec import NodeSet


def is_left_behind(nodeset: NodeSet, pod: Pod, *, node: str) -> bool:
    """The pod runs on this node, belonged to a NodeSet of this name, and has no owner now."""
    labels = pod_labels(nodeset, pod.name).items()
    expected = {label: value for label, value in labels if label != names.LABEL_TEMPLATE_HASH}
    is_alike = expected.items() <= pod.labels.items() and pod.metadata.namespace == nodeset.metadata.namespace
    is_there = pod.spec.node_name == node and not pod.is_deleting and not pod.is_finished
    return is_alike and is_there and not pod.metadata.owner_references

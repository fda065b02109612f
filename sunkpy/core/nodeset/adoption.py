"""Which NodeSet may take over slurmd pods that have no owner, as `kubectl delete nodeset --cascade=orphan` leaves them.

As with other controllers, it is the NodeSet of the same name, if it wants a pod of that name on that node. Jobs run in
such a pod, so a pod in doubt is not taken over.
"""

from __future__ import annotations

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.nodeset.slurmd_pod import pod_labels
from sunkpy.core.nodeset.spec import NodeSet


def is_left_behind(nodeset: NodeSet, pod: Pod, *, node: str) -> bool:
    """True if the pod runs on this node, belonged to a NodeSet of the same name and cluster, and has no owner now, so
    that `nodeset` may take it over.
    """
    labels = pod_labels(nodeset, pod.name).items()
    expected = {label: value for label, value in labels if label != names.LABEL_TEMPLATE_HASH}
    is_alike = expected.items() <= pod.labels.items() and pod.metadata.namespace == nodeset.metadata.namespace
    is_there = pod.spec.node_name == node and not pod.is_deleting and not pod.is_finished
    return is_alike and is_there and not pod.metadata.owner_references

"""How slurmd pods are kept from being deleted under running jobs by `kubectl drain`, autoscalers, or others that evict
pods.

Each NodeSet has a disruption budget that never allows an eviction, for all its pods except those labelled
`sunkpy.dev/evictable`. A pod gets the label while its Node is cordoned or about to be removed, and Slurm says that the
Slurm node is drained and runs nothing. So `kubectl drain` works as people expect: it cordons, the cordon drains the
Slurm node, and the retries of `kubectl drain` succeed as soon as the last job has ended.

Autoscalers choose Nodes by what their pods request, and a slurmd pod requests almost nothing. So the Node carries
annotations by which autoscalers leave it alone, as long as jobs run there or could start. To set them when a job starts
would be too late, because a job starts faster than sunkpy sees it, and each change of a Node goes to every controller
there is.
"""

from __future__ import annotations

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.slurmd import is_emptied
from sunkpy.core.nodeset.feasibility import departure
from sunkpy.core.nodeset.node_mark import Changes
from sunkpy.core.nodeset.slurmd_pod import Json
from sunkpy.core.nodeset.spec import NodeSet

_MORE_THAN_ANY = 2_000_000_000  # healthy pods that must remain: an int32 no NodeSet reaches


def budget_name(nodeset: NodeSet) -> str:
    """Return the name of the NodeSet's disruption budget: `<nodeset>-slurmd`."""
    return f"{nodeset.name}-slurmd"


def build_budget(nodeset: NodeSet) -> Json:
    """Return the NodeSet's PodDisruptionBudget. It has `minAvailable`, because `maxUnavailable` needs spec.replicas."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": budget_name(nodeset),
            "namespace": nodeset.metadata.namespace,
            "labels": {names.LABEL_NODESET: nodeset.name},
            "ownerReferences": [nodeset.reference],
        },
        "spec": {
            "minAvailable": _MORE_THAN_ANY,
            "selector": {
                "matchLabels": {names.LABEL_NODESET: nodeset.name, names.LABEL_ROLE: names.ROLE_COMPUTE},
                "matchExpressions": [{"key": names.LABEL_EVICTABLE, "operator": "DoesNotExist"}],
            },
        },
    }


def decide_evictable(node: Node | None, pod: Pod) -> Changes:
    """Return the change of the slurmd pod's label `sunkpy.dev/evictable`, which allows its eviction: the pod has it
    while its Node is cordoned or about to be removed, and Slurm says that the node is drained and runs nothing.

    A Node that cannot be seen, or a state that is not known, gives no label.
    """
    is_closed = node is not None and (node.spec.unschedulable or departure(node) is not None)
    wanted = "true" if is_closed and is_emptied(pod) else None
    return {names.LABEL_EVICTABLE: wanted} if pod.labels.get(names.LABEL_EVICTABLE) != wanted else {}


def decide_autoscaler_marks(node: Node, pod: Pod | None, *, has_jobs: bool) -> Changes:
    """Return changes of the annotations by which autoscalers leave the Node alone, and of the annotation that lists
    which of them sunkpy has set. The Node has them while jobs run there or could start.

    The Cluster Autoscaler reads its annotation on the Node (`HasNoScaleDownAnnotation` of its `eligibility.go`),
    Karpenter on Node and pod (`ValidateNodeDisruptable` of its `statenode.go`); both accept only the value `true`. An
    annotation that somebody else has set, whatever its value, is neither changed nor removed.

    Args:
        node: the Node as it is.
        pod: its slurmd pod.
        has_jobs: pods of Slurm jobs are there, perhaps while a rolling update replaces the slurmd pod.
    """
    noted = node.annotations.get(names.ANNOTATION_KEPT, "").split(",")
    ours = [key for key in names.AUTOSCALER_MARKS if key in noted and node.annotations.get(key) == "true"]
    if not has_jobs and (pod is None or is_emptied(pod)):
        return {**dict.fromkeys(ours), names.ANNOTATION_KEPT: None}
    marks = [key for key in names.AUTOSCALER_MARKS if key in ours or key not in node.annotations]
    return {**dict.fromkeys(marks, "true"), names.ANNOTATION_KEPT: ",".join(marks) or None}

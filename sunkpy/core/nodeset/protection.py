"""Keeps others from deleting slurmd pods under running jobs: `kubectl drain`, autoscalers, the eviction API at large.

Each NodeSet has a disruption budget that never allows anything, over all its pods but those labelled
`sunkpy.dev/evictable`. A pod gets the label while its node is cordoned and Slurm says that the node drains and runs
nothing. So `kubectl drain` works as people expect: it cordons, the cordon drains the Slurm node, and the drain's
retries succeed as soon as the last job has ended.
"""

from __future__ import annotations

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.nodeset.feasibility import departure
from sunkpy.core.nodeset.node_mark import Changes
from sunkpy.core.nodeset.slurmd_pod import Json
from sunkpy.core.nodeset.spec import NodeSet

_MORE_THAN_ANY = 2_000_000_000  # healthy pods that must remain: an int32 no NodeSet reaches


def budget_name(nodeset: NodeSet) -> str:
    """`<nodeset>-slurmd`; one for each NodeSet, in its namespace."""
    return f"{nodeset.name}-slurmd"


def build_budget(nodeset: NodeSet) -> Json:
    """The PodDisruptionBudget (policy/v1). `minAvailable` is a number, since `maxUnavailable` needs spec.replicas."""
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
    """Changes of the pod's label. A Node that is about to be removed counts as cordoned.

    A Node that cannot be seen, or a state that is not known, protects the pod.
    """
    running = pod.condition(names.CONDITION_RUNNING)
    is_idle = running is not None and running.status == "False" and pod.is_condition_true(names.CONDITION_DRAIN)
    is_closed = node is not None and (node.spec.unschedulable or departure(node) is not None)
    wanted = "true" if is_closed and is_idle else None
    return {names.LABEL_EVICTABLE: wanted} if pod.labels.get(names.LABEL_EVICTABLE) != wanted else {}

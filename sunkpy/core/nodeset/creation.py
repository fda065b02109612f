"""Which nodes get a slurmd pod now, and under which name."""

from __future__ import annotations

from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.nodeset.actions import CreatePod
from sunkpy.core.nodeset.naming import assign_names, remembered_name
from sunkpy.core.nodeset.slurmd_pod import build_pod, node_of
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.nodeset.survey import Survey
from sunkpy.core.nodeset.world import World

_CREATE_BURST = 250  # per pass, as the DaemonSet controller does


def plan_creations(world: World, survey: Survey, desired: int) -> list[CreatePod]:
    """Fill the nodes that fit and have no pod; with `replicas`, as many of the best ones as are missing."""
    filled = {node_of(pod) for pod in survey.pods}
    free = [node for node in survey.fits if node.name not in filled]
    if world.nodeset.spec.replicas is not None:
        room = max(desired - len(survey.staying), 0)
        free = sorted(free, key=lambda node: _creation_order(world, node))[:room]
    if not free:
        return []
    assigned = assign_names(
        world.nodeset,
        free,
        held={node_of(pod): pod.name for pod in survey.pods},
        taken=[pod.name for pod in world.foreign_pods if _shares_names(world.nodeset, pod)],
    )
    return [
        CreatePod(node.name, assigned[node.name], build_pod(world.nodeset, node, assigned[node.name]))
        for node in free[:_CREATE_BURST]
    ]


def _shares_names(nodeset: NodeSet, pod: Pod) -> bool:
    """Pod names are unique in a namespace, Slurm names in a Slurm cluster."""
    same_cluster = pod.labels.get(names.LABEL_CLUSTER) == nodeset.spec.cluster
    return same_cluster or pod.metadata.namespace == nodeset.metadata.namespace


def _creation_order(world: World, node: Node) -> tuple[bool, bool, bool, str, str]:
    """Usable nodes first, then those that had a pod of this NodeSet, then the oldest."""
    return (
        node.spec.unschedulable,
        not node.is_ready,
        remembered_name(world.nodeset, node) is None,
        node.metadata.creation_timestamp,
        node.name,
    )

"""Gangs whose pods each name a node: their job asks for exactly these nodes.

Armada chooses the node of every pod itself and writes it into the pod, as nodeSelector `kubernetes.io/hostname`.
Slurm's tasks are all alike, and no single node fits all of these pods. So the job requires all the nodes, asks on each
for the most that is needed on any, and each pod is bound to the node that it names.

Source: armada internal/scheduler/api.go (addNodeIdSelector), config/scheduler/config.yaml (nodeIdLabel).
"""

from __future__ import annotations

from collections.abc import Mapping

from sunkpy.core.gang.gang import Gang
from sunkpy.core.placement.domains import HOSTNAME
from sunkpy.core.placement.eligibility import Eligibility, nowhere


def eligible_named_nodes(gang: Gang, named: Mapping[str, str], each: Mapping[str, Eligibility]) -> Eligibility:
    """Return the nodes that the pods name; none, with the reason, if a pod may not go to the node that it names.

    Args:
        each: by uid, where the pod may go.
    """
    for pod in gang.members:
        if not named[pod.uid]:
            return nowhere(f"pod {pod.name} names node {pod.spec.node_selector[HOSTNAME]}, which is no Slurm node")
        if named[pod.uid] not in each[pod.uid].eligible:
            why = each[pod.uid].refused.get(named[pod.uid], "is not known")
            return nowhere(f"pod {pod.name} names node {pod.spec.node_selector[HOSTNAME]}, and may not go there: {why}")
    return Eligibility(eligible=tuple(sorted(set(named.values()))))

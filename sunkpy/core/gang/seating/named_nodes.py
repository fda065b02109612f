"""Gangs whose pods each name a node: their job asks for exactly these nodes.

Armada chooses the node of every pod itself and writes the node into the pod, as nodeSelector `kubernetes.io/hostname`.
Slurm's tasks are all alike, and no single node fits all of these pods. So the job requires all the nodes, and asks on
each of them for the most that the pods need on any. Each pod is bound to the node that it names.

Source: armada internal/scheduler/api.go (addNodeIdSelector), config/scheduler/config.yaml (nodeIdLabel).
"""

from __future__ import annotations

from collections.abc import Mapping

from sunkpy.core.gang.gang import Gang
from sunkpy.core.placement.domains import HOSTNAME
from sunkpy.core.placement.eligibility import Eligibility, nowhere


def eligible_named_nodes(gang: Gang, named: Mapping[str, str], each: Mapping[str, Eligibility]) -> Eligibility:
    """Return the Slurm nodes that the pods of the gang name as the nodes where the job may run. If a pod names no Slurm
    node, or may not go to the node that it names, the result has no nodes and says why.

    Args:
        named: by pod uid, the Slurm node that the pod names; empty if it is no Slurm node.
        each: by pod uid, where the pod may go.
    """
    for pod in gang.members:
        if not named[pod.uid]:
            return nowhere(f"pod {pod.name} names node {pod.spec.node_selector[HOSTNAME]}, which is no Slurm node")
        if named[pod.uid] not in each[pod.uid].eligible:
            why = each[pod.uid].refused.get(named[pod.uid], "it is not known why")
            return nowhere(f"pod {pod.name} names node {pod.spec.node_selector[HOSTNAME]}, and may not go there: {why}")
    return Eligibility(eligible=tuple(sorted(set(named.values()))))

"""Gangs whose pods name a node each: their job asks for these nodes and no others.

Armada chooses the node of every pod itself and writes it into the pod, as nodeSelector `kubernetes.io/hostname`. The
tasks of a job are alike and may come to any of its nodes, and no node fits all of these pods: so the job requires all
the nodes, asks on each for what is most on any of them, and each pod is bound to its own.

Source: armada internal/scheduler/api.go (addNodeIdSelector), config/scheduler/config.yaml (nodeIdLabel).
"""

from __future__ import annotations

from collections.abc import Mapping

from sunkpy.core.gang.gang import Gang
from sunkpy.core.placement.domains import HOSTNAME
from sunkpy.core.placement.eligibility import Eligibility, nowhere


def eligible_named_nodes(gang: Gang, named: Mapping[str, str], each: Mapping[str, Eligibility]) -> Eligibility:
    """The nodes that the pods name; none, with the reasons, when one of them may not go there.

    Args:
        each: where the pods may go, by uid.
    """
    for pod in gang.members:
        if not named[pod.uid]:
            return nowhere(f"pod {pod.name} names node {pod.spec.node_selector[HOSTNAME]}, which is no Slurm node")
        if named[pod.uid] not in each[pod.uid].eligible:
            why = each[pod.uid].refused.get(named[pod.uid], "is not known")
            return nowhere(f"pod {pod.name} names node {pod.spec.node_selector[HOSTNAME]}, and may not go there: {why}")
    return Eligibility(eligible=tuple(sorted(set(named.values()))))

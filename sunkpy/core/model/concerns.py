"""What a pod asks for besides CPUs, memory and a node with the right labels.

Each concern has rules of its own, about devices, volumes or other pods. Most pods have no concern, and then the code of
these rules is not entered. A pod that has a concern here may turn out to need nothing, but not the other way round: a
pod without a concern never needs what the rules of this concern do. Other pods may have rules about a pod that has no
concern itself.
"""

from __future__ import annotations

import enum

from sunkpy.core.model import matching
from sunkpy.core.model.objects import PodSpec


class Concern(enum.Flag):
    """What a pod may ask for, each with rules of its own.

    `DEVICES`: a ResourceClaim, or a resource whose name has a domain, such as `nvidia.com/gpu`. All devices are asked
    for in one of these ways, also those that the scheduler adds to a pod's requests for its claims. `VOLUMES`: a volume
    with a claim. `NEIGHBOURS`: affinity or anti-affinity to pods, host ports, or topology spread constraints.
    """

    NONE = 0
    DEVICES = enum.auto()
    VOLUMES = enum.auto()
    NEIGHBOURS = enum.auto()


def concerns_of(spec: PodSpec) -> Concern:
    """Return the concerns of a pod with this spec, existing or not."""
    found = Concern.NONE
    if spec.resource_claims or _has_extended_resource(spec):
        found |= Concern.DEVICES
    if any(each.persistent_volume_claim is not None or each.ephemeral is not None for each in spec.volumes):
        found |= Concern.VOLUMES
    if spec.anti_affinity_terms or spec.pod_affinity_terms or spec.host_ports or spec.hard_spread_constraints:
        found |= Concern.NEIGHBOURS
    return found


def _has_extended_resource(spec: PodSpec) -> bool:
    asked = (spec.resources, *(each.resources for each in matching.containers_of(spec)))
    return any("/" in name for each in asked for name in matching.wanted(each))

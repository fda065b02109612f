"""What a pod asks for besides CPUs, memory and a node with the right labels.

Each concern has rules of its own, about devices, volumes or other pods. Most pods have no concern, and then the
scheduler does not ask what these rules say of the pod. A pod that has a concern here may turn out to need nothing, but
not the other way round: a pod without a concern never needs what the rules of this concern do. Rules that other pods
have about it, such as their anti-affinity, hold for each pod.

These questions are asked at each event of a pod, so they are plain loops.
"""

from __future__ import annotations

import enum

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
    if may_want_devices(spec):
        found |= Concern.DEVICES
    if has_claimed_volumes(spec):
        found |= Concern.VOLUMES
    if looks_at_neighbours(spec):
        found |= Concern.NEIGHBOURS
    return found


def may_want_devices(spec: PodSpec) -> bool:
    """Return whether a pod with this spec has the concern `DEVICES`."""
    if spec.resource_claims:
        return True
    for name in (*spec.resources.requests, *spec.resources.limits):
        if "/" in name:
            return True
    for container in (*spec.init_containers, *spec.containers):
        for name in (*container.resources.requests, *container.resources.limits):
            if "/" in name:
                return True
    return False


def has_claimed_volumes(spec: PodSpec) -> bool:
    """Return whether a pod with this spec has the concern `VOLUMES`."""
    if not spec.volumes:
        return False
    return any(each.persistent_volume_claim is not None or each.ephemeral is not None for each in spec.volumes)


def looks_at_neighbours(spec: PodSpec) -> bool:
    """Return whether a pod with this spec has the concern `NEIGHBOURS`."""
    if spec.affinity is not None and (spec.anti_affinity_terms or spec.pod_affinity_terms):
        return True
    return bool(spec.topology_spread_constraints and spec.hard_spread_constraints) or bool(spec.host_ports)

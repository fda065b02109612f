"""The claim that the scheduler makes for a pod that asks for the resource of a DeviceClass.

Such a pod names no claim: whoever schedules it makes one and says in the pod's status which container has which of its
requests (KEP-5004). So such a resource is taken out of what the kubelet has to offer, and from here on the pod is one
with a claim. Its name follows from the pod, so that none is made twice.

A resource that some kubelet offers is left to the device plugins: one kind per resource, because a job is made before
its node is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from sunkpy.core.model import matching, quantity
from sunkpy.core.model.devices import (
    DEVICE_CLASS,
    DeviceChoice,
    DeviceClass,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    WantedDevices,
)
from sunkpy.core.model.objects import ClaimRequestMapping, Container, Meta, Pod, PodSpec, Resources

OWN_NAME: Final = ""
"""Under which a pod has the claim that was made for it. The claims that it names have a name."""

_LONGEST: Final = 200


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Resource → the DeviceClass for which it stands."""
    found: dict[str, str] = {}
    for each in classes:
        found[DEVICE_CLASS + each.name] = each.name
        if each.spec.extended_resource_name:
            found[each.spec.extended_resource_name] = each.name
    return found


def made_name(pod: Pod) -> str:
    """The name of the claim that is made for a pod."""
    return f"{pod.name[:_LONGEST].rstrip('.-')}-extended-resources-{pod.uid[:8]}"


def asks_for_devices(spec: PodSpec) -> bool:
    """True if the pod asks for extended resources; whether one stands for a class is another question."""
    return any("/" in name for each in matching.containers_of(spec) for name in matching.wanted(each.resources))


def requests_of(spec: PodSpec, by_claim: Mapping[str, str]) -> list[tuple[ClaimRequestMapping, DeviceRequest]]:
    """Each request of the claim that a pod needs, with the container whose request it is.

    Args:
        spec: of the pod.
        by_claim: resource → DeviceClass.
    """
    found = []
    for at, container in enumerate(matching.containers_of(spec)):
        asked = {
            name: count for name, count in sorted(matching.wanted(container.resources).items()) if name in by_claim
        }
        for number, (resource, amount) in enumerate(asked.items()):
            if count := quantity.whole(amount):
                name = f"container-{at}-request-{number}"
                whose = ClaimRequestMapping(container_name=container.name, resource_name=resource, request_name=name)
                choice = DeviceChoice(device_class_name=by_claim[resource], count=count)
                found.append((whose, DeviceRequest(name=name, exactly=choice)))
    return found


def claim_spec_of(spec: PodSpec, by_claim: Mapping[str, str]) -> ResourceClaimSpec:
    """The spec of the claim that such a pod needs; it asks for nothing when no claim is needed."""
    requests = tuple(request for _, request in requests_of(spec, by_claim))
    return ResourceClaimSpec(devices=WantedDevices(requests=requests))


def claim_to_make(pod: Pod, by_claim: Mapping[str, str]) -> ResourceClaim | None:
    """The claim that the pod needs, not made yet: without a uid. None when it needs none."""
    spec = claim_spec_of(pod.spec, by_claim)
    metadata = Meta(name=made_name(pod), namespace=pod.metadata.namespace)
    return ResourceClaim(metadata=metadata, spec=spec) if spec.devices.requests else None


def without_resources(spec: PodSpec, resources: Collection[str]) -> PodSpec:
    """The spec without requests to the kubelet for these resources."""

    def left(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(
            msgspec.structs.replace(each, resources=_without(each.resources, resources)) for each in containers
        )

    return msgspec.structs.replace(spec, containers=left(spec.containers), init_containers=left(spec.init_containers))


def _without(asked: Resources, resources: Collection[str]) -> Resources:
    requests, limits = (
        {name: amount for name, amount in amounts.items() if name not in resources}
        for amounts in (asked.requests, asked.limits)
    )
    return Resources(requests=requests, limits=limits)

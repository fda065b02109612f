"""Chooses the device for each request of a ResourceClaim: the device behind the index that Slurm gave to the pod's job.

The slurmd of a node publishes what is behind each of Slurm's device indices there. The device is the one in the node's
ResourceSlices that has the same uuid and PCI address; one of the two is enough if only that one is known on both sides.
If slurmd and ResourceSlices do not agree, no device is chosen. A device that another claim has is not chosen either:
neither apiserver nor kubelet would refuse a second owner.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

import msgspec

from sunkpy.core.gang.devices.asked import explain_claim, missing_claim
from sunkpy.core.gang.devices.handout import devices_on
from sunkpy.core.gang.devices.indices import noted_indices
from sunkpy.core.gang.devices.made import OWN_NAME
from sunkpy.core.model import quantity
from sunkpy.core.model.devices import (
    AllocatedDevice,
    CounterId,
    Device,
    DeviceClass,
    DeviceId,
    ResourceClaim,
    SlurmDevice,
)
from sunkpy.core.model.gres import gres_name
from sunkpy.core.model.matching import tolerates
from sunkpy.core.model.objects import ClaimRequestMapping, ExtendedClaimStatus, Pod, Toleration, shown_to
from sunkpy.core.placement.admission import Admission, Verdict

OwnerOf = Callable[[DeviceId], ResourceClaim | None]
"""A function that returns the claim that has a device; None if the device is free, or belongs to a pod that is being
bound now.
"""


class DeviceLack(enum.StrEnum):
    """The reasons why a pod cannot have its devices. In the first three cases a device would have got a second
    owner.
    """

    TAKEN = "taken"  # another claim has it
    TWICE = "twice"  # two of Slurm's indices are the same device
    ENDING = "ending"  # containers of a pod that was deleted by force may still use the device
    CLAIM = "claim"  # a claim does not exist, or is refused
    INDICES = "indices"  # Slurm has not reported the job's indices
    STALE = "stale"  # Slurm's list of the devices may be that of an earlier slurmd
    UNKNOWN = "unknown"  # slurmd and driver do not agree on what is behind an index
    AHEAD = "ahead"  # the kubelet has yet to admit a pod of another job
    AWAY = "away"  # the driver offers no devices now
    GATE = "gate"  # the kubelet would run the pod without its devices
    TAINTED = "tainted"
    LATE = "late"  # the device is attached only after it was chosen, which sunkpy does not wait for


class DevicesOnNode(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of a node. `listed`: for each GRES, what is behind each of Slurm's indices, in their order, as slurmd
    published it. `offered`: the devices in the drivers' ResourceSlices. `counters`: the total of each counter (such as
    a card's memory) that several devices share.
    """

    node: str
    listed: Mapping[str, tuple[SlurmDevice, ...]] = {}
    offered: Mapping[DeviceId, Device] = {}
    counters: Mapping[CounterId, int] = {}


class DeviceDemand(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that is to be bound, the devices of its node, and its ResourceClaims (`claims`, by the pod's own names for
    them).

    `indices`: the pod's share of the job's device indices on the node, as the text of its annotation. `mappings`: if
    the scheduler made a claim for the pod, which container has which request of that claim. `counted`: for how many
    devices of claims the job was asked; None if that is unknown.
    """

    pod: Pod
    on: DevicesOnNode
    indices: str = ""
    claims: Mapping[str, ResourceClaim] = {}
    mappings: tuple[ClaimRequestMapping, ...] = ()
    counted: int | None = None


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The devices that were chosen for one ResourceClaim of a pod. `mappings`: for a claim that the scheduler made for
    the pod, which container has which request of the claim; empty for other claims.
    """

    claim: ResourceClaim
    pod: Pod
    node: str
    devices: tuple[AllocatedDevice, ...]
    mappings: tuple[ClaimRequestMapping, ...] = ()

    @property
    def classes(self) -> set[str]:
        """The DeviceClasses that the claim asks for. The config of these classes is written to the claim together with
        the devices.
        """
        requests = (request.exactly for request in self.claim.spec.devices.requests)
        return {asked.device_class_name for asked in requests if asked is not None}

    @property
    def is_written(self) -> bool:
        """True if the claim's status already has these devices. If the scheduler made the claim for the pod, the pod's
        status must name the claim, too.
        """
        allocation = self.claim.status.allocation
        if self.made_status is not None and self.made_status != self.pod.status.extended_resource_claim_status:
            return False
        return self.claim.is_for(self.pod.uid) and allocation is not None and allocation.devices.results == self.devices

    @property
    def made_status(self) -> ExtendedClaimStatus | None:
        """What the pod's status must say of a claim that the scheduler made for the pod; None for a claim that the pod
        itself names.
        """
        name, mappings = self.claim.name, self.mappings
        return ExtendedClaimStatus(resource_claim_name=name, request_mappings=mappings) if mappings else None

    def status(self, classes: Mapping[str, DeviceClass]) -> dict[str, object]:
        """Return the status to write to the claim, with its devices and its pod, in the form that kube-scheduler
        writes. `classes`: the DeviceClasses by name.
        """
        wanted = self.claim.spec.devices
        of_class = [
            {"source": "FromClass", "requests": [request.name], **_opaque(config.opaque)}
            for request in wanted.requests
            if request.exactly is not None and request.exactly.device_class_name in classes
            for config in classes[request.exactly.device_class_name].spec.config
        ]
        of_claim = [
            {"source": "FromClaim", "requests": list(config.requests), **_opaque(config.opaque)}
            for config in wanted.config
        ]
        here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [self.node]}]}
        return {
            "allocation": {
                "devices": {"results": list(map(msgspec.to_builtins, self.devices)), "config": of_class + of_claim},
                "nodeSelector": {"nodeSelectorTerms": [here]},
            },
            "reservedFor": [{"resource": "pods", "name": self.pod.name, "uid": self.pod.uid}],
        }


def choose_devices(
    wanted: Iterable[DeviceDemand], classes: Mapping[str, str], owner_of: OwnerOf
) -> tuple[list[Chosen], dict[str, Admission]]:
    """Choose the devices for all ResourceClaims of these pods. Return the devices of each claim, and for each pod that
    cannot have its devices the reason, by pod uid.

    Args:
        wanted: the pods that are to be bound together, each with its claims.
        classes: DeviceClass → GRES.
        owner_of: returns the claim that already has a device; None if the device is free, or belongs to a pod that is
            being bound now.
    """
    chosen: list[Chosen] = []
    refused: dict[str, Admission] = {}
    given: set[DeviceId] = set()
    for each in wanted:
        found = _choose(each, classes, owner_of, given)
        if isinstance(found, Admission):
            refused[each.pod.uid] = found
        else:
            chosen += found
    return chosen, refused


def note_devices(chosen: Iterable[Chosen]) -> dict[str, str]:
    """Return, by pod uid, the text of the annotation that names the devices chosen for the pod:
    `node-1/gpu-0,node-1/gpu-3`.
    """
    notes: dict[str, list[str]] = {}
    for each in chosen:
        notes.setdefault(each.pod.uid, []).extend(str(device.id) for device in each.devices)
    return {uid: ",".join(devices) for uid, devices in notes.items()}


def lacking(reason: DeviceLack, why: str, *, verdict: Verdict = Verdict.WAIT) -> Admission:
    """Return the answer for a pod that cannot have its devices. By default the pod waits; with another `verdict` it can
    be refused for good.
    """
    return Admission(verdict=verdict, why=why, reason=reason)


def explain_loss(pod: Pod, claims: Collection[ResourceClaim], owner_of: OwnerOf) -> str:
    """Say why a bound pod no longer has the devices in its annotation for itself; empty if it has them, or if it has no
    such annotation.

    Anybody who may write the status of claims can change an allocation while the pod runs, or give a device to a second
    claim: the apiserver refuses neither.

    Args:
        pod: a pod that has not ended; when a pod has ended, Kubernetes clears its claims.
        claims: the claims of the pod that exist.
        owner_of: returns another claim that has a device; None if no other has it.
    """
    noted = devices_on(pod)
    held = [id for claim in claims for id in claim.held]
    if noted and noted != set(map(str, held)):
        has = ", ".join(map(str, held)) or "no devices"
        return f"the claims of this pod were changed: they have {has}, and the pod runs with {', '.join(sorted(noted))}"
    for id in held if noted else ():
        if other := owner_of(id):
            return (
                f"device {id} of this pod was given to {shown_to(pod.metadata.namespace, other, kind='claim')} as well"
            )
    return ""


def is_noted(pod: Pod, device: DeviceId) -> bool:
    """True if the pod was bound with this device: the pod's annotation names it."""
    return str(device) in devices_on(pod)


def _choose(
    wanted: DeviceDemand, classes: Mapping[str, str], owner_of: OwnerOf, given: set[DeviceId]
) -> list[Chosen] | Admission:
    pod, on = wanted.pod, wanted.on
    if missing := missing_claim(pod, wanted.claims):
        return lacking(DeviceLack.CLAIM, f"{missing} is not there")
    asked = sum(each.exactly.count for c in wanted.claims.values() for each in c.spec.devices.requests if each.exactly)
    if wanted.counted not in (None, asked):
        why = f"the claims of pod {pod.name} ask for {asked} devices, and its job was asked for {wanted.counted}"
        return lacking(DeviceLack.CLAIM, why)
    left = {gres: list(indices) for gres, indices in noted_indices(wanted.indices).items()}
    chosen = []
    for name, claim in wanted.claims.items():
        if why := explain_claim(pod, claim, classes):
            return lacking(DeviceLack.CLAIM, why, verdict=Verdict.WAIT if claim.is_allocated else Verdict.REFUSE)
        devices = []
        for request in claim.spec.devices.requests:
            assert request.exactly is not None  # explain_claim has refused the others
            gres, count = classes[request.exactly.device_class_name], request.exactly.count
            taken, left[gres] = left.get(gres, [])[:count], left.get(gres, [])[count:]
            if len(taken) < count:
                why = f"Slurm has not said which {gres} of node {on.node} its job has for request {request.name}"
                return lacking(DeviceLack.INDICES, why)
            tolerations = request.exactly.tolerations or ()
            for index in taken:
                found = _device_at(on, gres, index, owner_of, given, tolerations, pod.metadata.namespace)
                if isinstance(found, Admission):
                    return found
                given.add(found)
                of_request = AllocatedDevice(
                    request=request.name,
                    driver=found.driver,
                    pool=found.pool,
                    device=found.device,
                    tolerations=tolerations,
                )
                devices.append(of_request)
        mappings = wanted.mappings if name == OWN_NAME else ()
        chosen.append(Chosen(claim=claim, pod=pod, node=on.node, devices=tuple(devices), mappings=mappings))
    return chosen


def _device_at(
    on: DevicesOnNode,
    gres: str,
    index: int,
    owner_of: OwnerOf,
    given: set[DeviceId],
    tolerations: Sequence[Toleration],
    namespace: str,
) -> DeviceId | Admission:
    """Return the device that stands behind one of Slurm's indices on a node, or why the pod cannot have this device.
    `given`: devices that were chosen for other requests at the same time. `namespace`: that of the pod.
    """
    what, listed = f"{gres} {index} of node {on.node}", on.listed.get(gres_name(gres), ())
    if index >= len(listed):
        return _refuse(DeviceLack.UNKNOWN, f"Slurm gave {what}, and its slurmd has not published which device that is")
    if not on.offered:
        why = f"no driver offers devices on node {on.node}: it has no complete pool of ResourceSlices"
        return lacking(DeviceLack.AWAY, why)
    known = listed[index]
    same = [id for id, device in on.offered.items() if known.agrees_with(device, id.driver)]
    if len(same) != 1:
        why = f"{len(same) or 'no'} devices in the ResourceSlices of node {on.node} are {what} ({known})"
        return _refuse(DeviceLack.UNKNOWN, why)
    (found,) = same
    device = on.offered[found]
    if taint := next((t for t in device.taints_that_repel if not any(tolerates(o, t) for o in tolerations)), None):
        return _refuse(DeviceLack.TAINTED, f"device {found} ({what}) has taint {taint.key}:{taint.effect}")
    if device.binding_conditions:
        late = ", ".join(device.binding_conditions)
        return _refuse(
            DeviceLack.LATE, f"device {found} ({what}) has binding conditions ({late}), which sunkpy does not await"
        )
    if found in given:
        return _refuse(DeviceLack.TWICE, f"device {found} stands behind two indices of Slurm, one of them {what}")
    owner = owner_of(found)
    if owner is not None:
        whose = shown_to(namespace, owner, kind="claim")
        return lacking(DeviceLack.TAKEN, f"device {found} ({what}) is allocated to {whose}")
    if short := _short_counter(on, found, owner_of, given):
        why = f"device {found} ({what}) shares {short.name} of {short.set} with others, and they leave it too little"
        return lacking(DeviceLack.TAKEN, why)
    return found


def _short_counter(
    on: DevicesOnNode, found: DeviceId, owner_of: OwnerOf, given: Container[DeviceId]
) -> CounterId | None:
    """Return the counter (such as a card's memory, which several devices share) of which too little is left for the
    device `found`; None if enough of all its counters is left.
    """
    wanted = _takes(found, on.offered[found])
    left = {id: on.counters.get(id, 0) for id in wanted}
    for other, device in on.offered.items():
        if wanted and other != found and (other in given or owner_of(other) is not None):
            for id, amount in _takes(other, device).items():
                left[id] = left.get(id, 0) - amount
    return next((id for id, amount in wanted.items() if left[id] < amount), None)


def _takes(id: DeviceId, device: Device) -> dict[CounterId, int]:
    return {
        CounterId(id.driver, id.pool, use.counter_set, name): quantity.whole(counter.value)
        for use in device.consumes_counters
        for name, counter in use.counters.items()
    }


def _opaque(opaque: dict[str, object] | None) -> dict[str, object]:
    return {"opaque": opaque} if opaque is not None else {}


def _refuse(reason: DeviceLack, why: str) -> Admission:
    return lacking(reason, why, verdict=Verdict.REFUSE)

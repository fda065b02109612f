"""Devices that are allocated one by one: Dynamic Resource Allocation (`resource.k8s.io/v1`), and Slurm's own list.

A ResourceClaim asks for devices, and its status names those that it has. The drivers list the devices of a node in
ResourceSlices.

Slurm knows a device by its index on the node. The slurmd writes which device each index is into `extra` of its Slurm
node: `{"gpu": ["nvidia0 GPU-5c… 0000:3b:00.0", …], "made": ["<uid>", "<time>"]}`. Under each GRES name there is a text
for each index: the device file, the uuid and the PCI address, with `-` for what is not known. `made` has the uid of the
slurmd pod that made the list, and the time in seconds since 1970.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from sunkpy.core import names
from sunkpy.core.model import quantity
from sunkpy.core.model.objects import KubeObject, Pod, Taint, Toleration, Wire
from sunkpy.core.model.times import is_of_start, parse_rfc3339

DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of a resource that stands for devices of a DeviceClass, whose name follows."""

CLAIMED: Final = "claimed.sunkpy.dev/"
"""Prefix of the resource by which sunkpy, and no kubelet, counts devices of claims; their DeviceClass follows."""

PROTECTION: Final = "resource.kubernetes.io/delete-protection"
"""Finalizer of a claim that is allocated. Kubernetes' own controller takes it off when nobody uses the claim."""

MADE: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation (with the value `true`) of a claim that a scheduler made for devices which a pod asks for as a resource.
"""

UUID: Final = "uuid"
PCI_ADDRESS: Final = "resource.kubernetes.io/pciBusID"
UNKNOWN: Final = "-"

_MADE: Final = "made"


class DeviceId(NamedTuple):
    """The name of a DRA device, unique in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.pool}/{self.device}"


class CounterId(NamedTuple):
    """The name of one counter in a set of counters that the devices of a driver's pool share."""

    driver: str
    pool: str
    set: str
    name: str


class Attribute(Wire, frozen=True, kw_only=True):
    """An attribute of a DRA device; only attributes with a text as value are read."""

    string: str = ""


class Counter(Wire, frozen=True, kw_only=True):
    """A quantity of something that several devices share, such as the memory of a card."""

    value: str = "0"


class CounterUse(Wire, frozen=True, kw_only=True):
    """The amount of each counter of a set that a device takes."""

    counter_set: str = ""
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class CounterSet(Wire, frozen=True, kw_only=True):
    """The total amount of each counter that devices of a pool share."""

    name: str = ""
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class Device(Wire, frozen=True, kw_only=True):
    """A device that a driver lists in a ResourceSlice. Attributes without a domain are the driver's own.
    `binding_conditions`: if not empty, the device is attached only once a scheduler has chosen it, and its pod must
    wait for that.
    """

    name: str
    attributes: dict[str, Attribute] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    consumes_counters: tuple[CounterUse, ...] = ()
    binding_conditions: tuple[str, ...] = ()

    @property
    def repelling(self) -> Taint | None:
        """The first taint that keeps pods without a toleration off the device; None if there is none."""
        return next(iter(self.taints_that_repel), None)

    @property
    def taints_that_repel(self) -> tuple[Taint, ...]:
        """The device's taints whose effect is not `None`."""
        return tuple(taint for taint in self.taints if taint.effect != "None")

    def attribute(self, name: str, driver: str) -> str:
        """Return the device's attribute of this name, with or without the driver's domain; empty if it has none."""
        found = self.attributes.get(name) or self.attributes.get(f"{driver}/{name}")
        return found.string if found is not None else ""


class SlicePool(Wire, frozen=True, kw_only=True):
    """The pool of devices that a ResourceSlice belongs to. Only slices of the newest generation count, and only once
    all `resource_slice_count` of them are there.
    """

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class SliceSpec(Wire, frozen=True, kw_only=True):
    """The devices of one pool that a ResourceSlice lists. `node_name` is empty if they do not belong to one node."""

    driver: str = ""
    pool: SlicePool = SlicePool()
    node_name: str = ""
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(KubeObject, frozen=True, kw_only=True):
    """A ResourceSlice: a list of devices that a driver has published."""

    spec: SliceSpec = SliceSpec()


def current_devices(slices: Iterable[ResourceSlice]) -> dict[DeviceId, Device]:
    """Return the devices of all complete pools, each in its newest generation. `slices` are all slices of a node."""
    pools = current_pools(slices).items()
    return {DeviceId(*pool, device.name): device for pool, devices in pools for device in devices or ()}


def current_pools(slices: Iterable[ResourceSlice]) -> dict[tuple[str, str], list[Device] | None]:
    """Return driver and pool → the pool's devices in its newest generation; None if some slices of that generation are
    missing.
    """
    return {
        pool: [device for spec in specs for device in spec.devices] if specs is not None else None
        for pool, specs in _newest(slices).items()
    }


def current_counters(slices: Iterable[ResourceSlice]) -> dict[CounterId, int]:
    """Return the total amount of each counter, such as the memory of a card, that devices of one pool share. Pools with
    missing slices are left out.
    """
    return {
        CounterId(*pool, each.name, name): quantity.whole(counter.value)
        for pool, specs in _newest(slices).items()
        for spec in specs or ()
        for each in spec.shared_counters
        for name, counter in each.counters.items()
    }


def _newest(slices: Iterable[ResourceSlice]) -> dict[tuple[str, str], list[SliceSpec] | None]:
    """Return, for each driver and pool, the slices of its newest generation; None if some of them are missing."""
    pools: dict[tuple[str, str], list[SliceSpec]] = defaultdict(list)
    for each in slices:
        pools[each.spec.driver, each.spec.pool.name].append(each.spec)
    found: dict[tuple[str, str], list[SliceSpec] | None] = {}
    for pool, specs in pools.items():
        newest = max(spec.pool.generation for spec in specs)
        whole = [spec for spec in specs if spec.pool.generation == newest]
        is_whole = len(whole) >= max(spec.pool.resource_slice_count for spec in whole)
        found[pool] = whole if is_whole else None
    return found


class Selector(Wire, frozen=True, kw_only=True):
    """A CEL condition on devices in a claim. sunkpy does not evaluate it."""


class DeviceChoice(Wire, frozen=True, kw_only=True):
    """A number of devices of one DeviceClass, as a claim asks for them. A field that is None was not given."""

    device_class_name: str = ""
    selectors: tuple[Selector, ...] | None = None
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool | None = None
    capacity: Selector | None = None
    tolerations: tuple[Toleration, ...] | None = None


class DeviceRequest(Wire, frozen=True, kw_only=True):
    """A request of a claim. One of its fields is set: `exactly` (these devices), or `first_available` (the first of
    several choices that can be had).
    """

    name: str = ""
    exactly: DeviceChoice | None = None
    first_available: tuple[DeviceChoice, ...] | None = None


class DeviceConfig(Wire, frozen=True, kw_only=True):
    """Configuration for the driver about the devices of some requests; of all requests if none is named."""

    requests: tuple[str, ...] = ()
    opaque: dict[str, object] | None = None


class WantedDevices(Wire, frozen=True, kw_only=True):
    """The devices that a claim asks for. `constraints` say what they must have in common."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[Selector, ...] = ()
    config: tuple[DeviceConfig, ...] = ()


class ResourceClaimSpec(Wire, frozen=True, kw_only=True):
    """The spec of a claim, or of a template for claims."""

    devices: WantedDevices = WantedDevices()


class AllocatedDevice(Wire, frozen=True, kw_only=True):
    """A device that was allocated to a request of a claim. With `admin_access` other claims may have it, too.
    `tolerations` are those of the request: Kubernetes evicts the pod if the device gets a taint that they do not cover.
    """

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()

    @property
    def id(self) -> DeviceId:
        """The driver, the pool and the name of the device."""
        return DeviceId(self.driver, self.pool, self.device)


class AllocatedDevices(Wire, frozen=True, kw_only=True):
    """All devices that were allocated to a claim."""

    results: tuple[AllocatedDevice, ...] = ()


class ClaimAllocation(Wire, frozen=True, kw_only=True):
    """The part of a claim's status that names the devices which were allocated to it."""

    devices: AllocatedDevices = AllocatedDevices()


class ClaimUser(Wire, frozen=True, kw_only=True):
    """A pod, or something else, for which a claim is reserved."""

    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(Wire, frozen=True, kw_only=True):
    """The status of a ResourceClaim. `allocation` is None until a scheduler has allocated devices."""

    allocation: ClaimAllocation | None = None
    reserved_for: tuple[ClaimUser, ...] = ()


class ResourceClaim(KubeObject, frozen=True, kw_only=True):
    """A ResourceClaim: the devices that it asks for, and those that it has."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def held(self) -> tuple[DeviceId, ...]:
        """The devices that this claim alone has; those with admin access are left out."""
        allocation = self.status.allocation
        return tuple(each.id for each in allocation.devices.results if not each.admin_access) if allocation else ()

    @property
    def is_allocated(self) -> bool:
        """True if devices are allocated to the claim, or it is reserved for somebody."""
        return self.status.allocation is not None or bool(self.status.reserved_for)

    def is_for(self, uid: str) -> bool:
        """True if the claim is reserved for the pod with this uid, and for nobody else."""
        return [user.uid for user in self.status.reserved_for] == [uid]


class TemplateSpec(Wire, frozen=True, kw_only=True):
    """The spec of the claims that are made by a template."""

    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(KubeObject, frozen=True, kw_only=True):
    """A template from which claims are made: one for each pod."""

    spec: TemplateSpec = TemplateSpec()


class DeviceClassSpec(Wire, frozen=True, kw_only=True):
    """The spec of a DeviceClass. `config`: what the administrator tells the driver about devices of this class.
    `extended_resource_name`: the resource by which a pod may ask kube-scheduler for such a device without a claim.
    """

    config: tuple[DeviceConfig, ...] = ()
    extended_resource_name: str = ""


class DeviceClass(KubeObject, frozen=True, kw_only=True):
    """A DeviceClass: a kind of devices, which claims ask for by its name."""

    spec: DeviceClassSpec = DeviceClassSpec()


class SlurmDevice(NamedTuple):
    """The device behind one index of a GRES on a Slurm node. A field is empty if it is not known."""

    file: str
    uuid: str = ""
    pci_address: str = ""

    def agrees_with(self, device: Device, driver: str) -> bool:
        """True if both are one device: both know its uuid or PCI address, and what both know is equal."""
        pairs = (
            (self.uuid, device.attribute(UUID, driver)),
            (self.pci_address, device.attribute(PCI_ADDRESS, driver)),
        )
        both = [(mine, other) for mine, other in pairs if mine and other]
        return bool(both) and all(mine.lower() == other.lower() for mine, other in both)

    def __str__(self) -> str:
        return " ".join(part for part in self if part)


def read_extra(text: str) -> Mapping[str, tuple[SlurmDevice, ...]]:
    """Return the devices that a Slurm node's `extra` lists, by GRES name; a device's position is its index. Empty if
    `extra` does not have the form in which sunkpy writes it.
    """
    return {name: tuple(map(_read_line, lines)) for name, lines in _lists(text).items() if name != _MADE}


def why_unproved(text: str, slurmd: Pod | None, now: datetime) -> str:
    """Return why `extra` of a Slurm node may not show the devices that its indices mean now; empty if it surely does.

    The list in `extra` is right if the container that now runs in the node's slurmd pod made it. slurmctld may keep an
    older list: 26.05 takes no new one from a slurmd that starts again, and a slurmctld that was killed loses the newest
    one.

    Args:
        text: the Slurm node's `extra`.
        slurmd: the slurmd pod of the node, as the apiserver has it now.
        now: the time of day.
    """
    if slurmd is None:
        return "its slurmd pod is gone"
    statuses = (each for each in slurmd.status.container_statuses if each.name == names.SLURMD_CONTAINER)
    running = next((each.state.running for each in statuses), None)
    if running is None or running.started_at is None:
        return f"slurmd does not run in pod {slurmd.name}"
    match _lists(text).get(_MADE):
        case (slurmd.uid, made) if made.isascii() and made.isdigit() and len(made) < 11:
            if is_of_start(datetime.fromtimestamp(int(made), UTC), parse_rfc3339(running.started_at), now):
                return ""
    return (
        f"Slurm's list of devices is not from the slurmd in pod {slurmd.name}, which writes one at its start; "
        "if this lasts, drain the node, and delete that pod once no job runs there"
    )


def _lists(text: str) -> dict[str, tuple[str, ...]]:
    try:
        return msgspec.json.decode(text, type=dict[str, tuple[str, ...]])
    except msgspec.DecodeError:
        return {}


def _read_line(line: str) -> SlurmDevice:
    words = ["" if word == UNKNOWN else word for word in line.split()]
    return SlurmDevice(*(words + [""] * 3)[:3])

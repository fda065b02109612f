"""Keeps the devices of each Node that DRA drivers have published. A NodeSet with `gpu.driver` offers them to Slurm.

A driver publishes ResourceSlices instead of an amount in the Node's status. A device with a taint, or one that is
attached only once it was chosen (binding conditions), is not offered. While a driver has no slices for a node, or not
all of a pool, its devices are not known, and what the node last offered stays valid: a driver that restarts removes its
slices for a while.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable
from typing import Final

import msgspec

from sunkpy.core.model.devices import PCI_ADDRESS, UNKNOWN, UUID, Device, ResourceSlice, current_pools
from sunkpy.core.model.objects import Key, Node, NodeDevice

_NOT_SERVED_AGAIN_S: Final = 60.0
_DIGITS: Final = re.compile(r"(\d+)")


class NodeDevices:
    """Keeps the devices of each node by driver, from ResourceSlices. When a slice changes, `on_change` is called with
    the name of its node.
    """

    def __init__(self, on_change: Callable[[str], None] = lambda _: None) -> None:
        self._on_change = on_change
        self._slices: defaultdict[str, dict[Key, ResourceSlice]] = defaultdict(dict)

    def slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        """Note a change of a ResourceSlice from the watch."""
        nodes = {each.spec.node_name for each in (old, new) if each is not None and each.spec.node_name}
        if old is not None:
            self._slices[old.spec.node_name].pop(old.key, None)
        if new is not None:
            self._slices[new.spec.node_name][new.key] = new
        for node in nodes:
            if not self._slices[node]:
                del self._slices[node]
            self._on_change(node)

    def add_to(self, node: Node) -> Node:
        """Return the Node with the devices that each driver offers there. A driver whose devices are not fully known is
        left out.
        """
        slices = self._slices.get(node.name)
        if slices is None:
            return node
        pools = current_pools(slices.values())
        unknown = {driver for (driver, _), devices in pools.items() if devices is None}
        found: defaultdict[str, list[Device]] = defaultdict(list)
        for (driver, _), of_pool in pools.items():
            if driver not in unknown:
                found[driver] += [device for device in of_pool or () if _is_ready(device)]
        offered = {
            driver: tuple(_offered(device, driver) for device in sorted(devices, key=_order))
            for driver, devices in found.items()
        }
        return msgspec.structs.replace(node, devices=offered)


def trim_slice(found: ResourceSlice) -> ResourceSlice:
    """Return the slice without the parts that nobody reads. Of a device's attributes, only texts are kept."""
    devices = [
        msgspec.structs.replace(
            device,
            attributes={name: it for name, it in device.attributes.items() if it.string},
            consumes_counters=(),
        )
        for device in found.spec.devices
    ]
    spec = msgspec.structs.replace(found.spec, devices=tuple(devices), shared_counters=())
    return msgspec.structs.replace(found, spec=spec)


async def until_slices_are_served() -> None:
    """Wait a minute. The informer calls this if the apiserver does not serve ResourceSlices (Kubernetes does since
    1.34), and then asks again.
    """
    await asyncio.sleep(_NOT_SERVED_AGAIN_S)


def _is_ready(device: Device) -> bool:
    """True if no taint keeps pods off the device, and it needs no preparation (binding conditions). A device that a pod
    uses is ready, too.
    """
    return device.repelling is None and not device.binding_conditions


def _offered(device: Device, driver: str) -> NodeDevice:
    uuid, pci = device.attribute(UUID, driver), device.attribute(PCI_ADDRESS, driver)
    return NodeDevice(
        word=f"{uuid or UNKNOWN},{pci}" if pci else uuid or UNKNOWN,
        attributes={name.removeprefix(f"{driver}/"): it.string for name, it in device.attributes.items()},
    )


def _order(device: Device) -> list[str | int]:
    """Return a sort key by which gpu-2 comes before gpu-10."""
    return [int(part) if part.isdigit() else part for part in _DIGITS.split(device.name)]

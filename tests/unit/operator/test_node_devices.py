"""What a driver publishes becomes the devices of a Node, and tells who has to look at the node again."""

from __future__ import annotations

import msgspec
import pytest

from sunkpy.core.model.devices import ResourceSlice
from sunkpy.core.model.objects import Node
from sunkpy.operator.node_devices import NodeDevices, trim_slice
from tests.unit.core.nodeset.build import make_node

DRIVER = "gpu.example.com"
PCI = "resource.kubernetes.io/pciBusID"
TAINT = [{"key": "gpu.example.com/unhealthy", "effect": "NoExecute"}]


def device(name: str, *, taints: object = (), late: object = (), **attributes: str) -> dict[str, object]:
    found = {key.replace("pci", PCI): {"string": text} for key, text in attributes.items()}
    return {"name": name, "attributes": found, "taints": taints, "bindingConditions": late}


def slice_of(*devices: dict[str, object], name: str = "s1", driver: str = DRIVER, **pool: object) -> ResourceSlice:
    spec = {"driver": driver, "nodeName": "n1", "devices": devices, "pool": {"name": "n1", **pool}}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def words(node: Node) -> dict[str, tuple[str, ...]]:
    return {driver: tuple(each.word for each in devices) for driver, devices in node.devices.items()}


def devices_of(*slices: ResourceSlice) -> dict[str, tuple[str, ...]]:
    known = NodeDevices()
    for each in slices:
        known.slice_changed(None, trim_slice(each))
    assert known.add_to(make_node(2)).devices == {}
    return words(known.add_to(make_node(1)))


@pytest.mark.parametrize(
    ("slices", "found"),
    [
        ([], {}),
        ([slice_of()], {DRIVER: ()}),
        ([slice_of(device("gpu-10", uuid="c"), device("gpu-2", uuid="b"))], {DRIVER: ("b", "c")}),
        ([slice_of(device("gpu-0", uuid="a", pci="0000:3b:00.0"))], {DRIVER: ("a,0000:3b:00.0",)}),
        ([slice_of(device("gpu-0", pci="0000:3b:00.0"), device("gpu-1"))], {DRIVER: ("-,0000:3b:00.0", "-")}),
        ([slice_of(device("gpu-0", uuid="a"), device("gpu-1", uuid="b", taints=TAINT))], {DRIVER: ("a",)}),
        ([slice_of(device("gpu-0", uuid="a", taints=[{"key": "warm", "effect": "None"}]))], {DRIVER: ("a",)}),
        ([slice_of(device("gpu-0", uuid="a"), device("gpu-1", uuid="b", late=["Attached"]))], {DRIVER: ("a",)}),
        # Of a pool of two slices one is there: nothing is known of this driver, all of others.
        (
            [slice_of(device("gpu-0", uuid="a"), resourceSliceCount=2), slice_of(device("n"), name="s2", driver="nic")],
            {"nic": ("-",)},
        ),
    ],
)
def test_the_devices_of_a_node_by_driver(slices, found):
    assert devices_of(*slices) == found


def test_a_driver_that_takes_its_slices_away_is_not_known_and_the_node_is_looked_at_again():
    changed: list[str] = []
    known = NodeDevices(changed.append)
    first = slice_of(device("gpu-0", uuid="a"))
    second = slice_of(device("gpu-0", uuid="a"), device("gpu-1", uuid="b"))
    known.slice_changed(None, first)
    known.slice_changed(first, second)
    assert words(known.add_to(make_node(1))) == {DRIVER: ("a", "b")}
    known.slice_changed(second, None)
    assert known.add_to(make_node(1)).devices == {}
    assert changed == ["n1", "n1", "n1"]


def test_attributes_that_are_texts_are_known_without_the_domain_of_the_driver():
    """As NVIDIA's driver publishes a MIG slice."""
    attributes = {
        "uuid": {"string": "MIG-1"},
        f"{DRIVER}/type": {"string": "mig"},
        "profile": {"string": "1g.5gb"},
        "driverVersion": {"version": "550.54.15"},
        PCI: {"string": "0000:3b:00.0"},
    }
    found = slice_of({"name": "gpu-0-mig-1g5gb-19-4", "attributes": attributes})
    known = NodeDevices()
    known.slice_changed(None, trim_slice(found))
    ((device,),) = known.add_to(make_node(1)).devices.values()
    assert device.word == "MIG-1,0000:3b:00.0"
    assert device.attributes == {"uuid": "MIG-1", "type": "mig", "profile": "1g.5gb", PCI: "0000:3b:00.0"}


def test_devices_of_no_node_wake_nobody():
    changed: list[str] = []
    shared = msgspec.structs.replace(slice_of(), spec=msgspec.structs.replace(slice_of().spec, node_name=""))
    NodeDevices(changed.append).slice_changed(None, shared)
    assert changed == []

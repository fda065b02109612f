"""Pretend GPUs by Dynamic Resource Allocation: the example driver of Kubernetes, a process on each node.

It publishes a ResourceSlice with devices gpu-0 …, each with a uuid. A container with a claim on them gets no device
files, only the environment `GPU_DEVICE_<n>=gpu-<n>`, by the Container Device Interface.
"""

from collections.abc import Iterable, Sequence
from typing import cast

from devcluster import pki
from devcluster.api import Api
from devcluster.binaries import Binaries
from devcluster.errors import DevclusterError
from devcluster.layout import MAX_NODES, Layout, NodeLayout
from devcluster.process import Daemon, Daemons
from devcluster.waiting import wait_until

PROGRAM = "dra-driver"
DRIVER = "gpu.example.com"
"""The name of the driver, and of the DeviceClass of its devices."""

RESOURCE = "example.com/dra-gpu"
"""The extended resource by which a pod may request such devices without a claim."""

API = "/apis/resource.k8s.io/v1"
SLICES = f"{API}/resourceslices"
MARK = "devcluster.sunkpy.dev"
MAX_SOCKET = 107


def device_class() -> tuple[str, dict[str, object]]:
    """Return ``(path, object)`` of the driver's DeviceClass."""
    return f"{API}/deviceclasses/{DRIVER}", {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {
            "extendedResourceName": RESOURCE,
            "selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}],
        },
    }


def driver(layout: Layout, node: NodeLayout, binaries: Binaries, *, devices: int) -> Daemon:
    """Return the driver's process on a node; it has the rights of the node's kubelet."""
    return Daemon(
        name=node.daemon(PROGRAM),
        argv=[
            str(binaries.dra_driver / "dra-example-kubeletplugin"),
            f"--kubeconfig={pki.kubeconfig_path(layout, pki.node_client(node.name))}",
            f"--node-name={node.name}",
            f"--num-devices={devices}",
            f"--cdi-root={node.cdi}",
            f"--kubelet-plugins-directory-path={node.kubelet_root}/plugins",
            f"--kubelet-registrar-directory-path={node.kubelet_root}/plugins_registry",
        ],
        netns=node.netns,
    )


def check_sockets(layout: Layout) -> None:
    """Raise DevclusterError if the paths of the driver's sockets on the last possible node are too long for the
    kernel.
    """
    longest = layout.node(MAX_NODES).kubelet_root / "plugins_registry" / f"{DRIVER}-reg.sock"
    if len(str(longest)) > MAX_SOCKET:
        raise DevclusterError(
            f"--dra: the socket {longest} has more than {MAX_SOCKET} characters; "
            f"give the cluster a name that is {len(str(longest)) - MAX_SOCKET} shorter"
        )


def expect_wipe(api: Api, nodes: Iterable[NodeLayout]) -> None:
    """Make a ResourceSlice as a mark on each node whose kubelet is about to start: it first deletes all slices there.

    The mark shows when that is done. A driver that started before would publish its slices only half a minute later.
    """
    for each in nodes:
        spec = {"driver": MARK, "nodeName": each.name, "pool": {"name": each.name, "resourceSliceCount": 1}}
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": _mark(each)}}
        api.apply(f"{SLICES}/{_mark(each)}", {**body, "spec": {**spec, "devices": []}})


def _mark(node: NodeLayout) -> str:
    return f"{node.name}-{MARK}"


def start(layout: Layout, nodes: Sequence[NodeLayout], binaries: Binaries, daemons: Daemons, *, devices: int) -> None:
    """Start the dead drivers, and wait until the devices of all ``nodes`` are published. The kubelets must run."""
    api = Api(layout.kubeconfig)
    api.apply(*device_class())
    marks = {_mark(each) for each in nodes}
    if not wait_until(lambda: not marks & {_name(item) for item in api.items(SLICES)}, timeout_s=60, every_s=0.2):
        raise DevclusterError("a kubelet did not delete the ResourceSlices of its node in 60 s; see log/*-kubelet.log")
    for each in nodes:
        daemons.start(driver(layout, each, binaries, devices=devices))

    def late() -> list[NodeLayout]:
        for each in nodes:
            daemons.require(each.daemon(PROGRAM))
        there = published(api)
        return [each for each in nodes if there.get(each.name) != devices]

    if not wait_until(lambda: not late(), timeout_s=90, every_s=0.2):
        name = late()[0].daemon(PROGRAM)
        raise DevclusterError(f"{name} published no {devices} devices in 90 s; it says:\n{daemons.tail(name)}")


def _name(item: dict[str, object]) -> str:
    return cast("dict[str, str]", item["metadata"])["name"]


def published(api: Api) -> dict[str, int]:
    """Return the number of devices in the driver's ResourceSlices by node."""
    found: dict[str, int] = {}
    for item in api.items(SLICES):
        spec = cast("dict[str, object]", item["spec"])
        if spec["driver"] == DRIVER:
            devices = cast("list[object]", spec.get("devices") or [])
            name = cast("str", spec["nodeName"])
            found[name] = found.get(name, 0) + len(devices)
    return found

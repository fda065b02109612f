"""Simulated nodes in addition to the real ones, for tests of scale: KWOK acts as their kubelets.

They have a taint, so that no pod gets there by accident, and addresses and GPUs like real nodes.
"""

import ipaddress
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from devcluster import pki
from devcluster.api import Api
from devcluster.binaries import Binaries
from devcluster.layout import Layout
from devcluster.node import GPU_RESOURCE
from devcluster.process import Daemon

MARK = "kwok.x-k8s.io/node"
NODES = "/api/v1/nodes"


def controller(layout: Layout, binaries: Binaries) -> Daemon:
    """Return the kwok controller's process; it manages only nodes with its annotation."""
    return Daemon(
        name="kwok",
        argv=[
            str(binaries.kwok / "kwok"),
            f"--kubeconfig={pki.kubeconfig_path(layout, 'kwok')}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-annotation-selector={MARK}=fake",
            f"--node-ip={layout.host_ip}",
            f"--cidr={pod_network(layout)}",
            f"--server-address={layout.host_ip}:10247",
            "--node-lease-duration-seconds=40",
        ],
        env={"HOME": str(layout.home)},
    )


def node_network(layout: Layout) -> ipaddress.IPv4Network:
    """Return the addresses of simulated nodes, to which no interface belongs."""
    return next(layout.spare_network.subnets())


def pod_network(layout: Layout) -> ipaddress.IPv4Network:
    """Return the addresses of pods on simulated nodes."""
    return list(layout.spare_network.subnets())[1]


def node_name(number: int) -> str:
    """Return the name of simulated node ``number`` (from 1)."""
    return f"kwok-{number}"


def node_object(number: int) -> dict[str, object]:
    """Return the Node object of simulated node ``number``, without status."""
    name = node_name(number)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {MARK: "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {
                MARK: "fake",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            },
        },
        "spec": {"taints": [{"key": MARK, "value": "fake", "effect": "NoSchedule"}]},
    }


def node_status(layout: Layout, number: int, *, gpus: int) -> dict[str, object]:
    """Return the status of simulated node ``number``: addresses and size. KWOK fills in the rest."""
    size = {"cpu": "32", "memory": "256Gi", "pods": "110"} | ({GPU_RESOURCE: str(gpus)} if gpus else {})
    addresses = [
        {"type": "InternalIP", "address": str(node_network(layout)[number])},
        {"type": "Hostname", "address": node_name(number)},
    ]
    return {"status": {"capacity": size, "allocatable": size, "addresses": addresses}}


def settle_nodes(api: Api, layout: Layout, *, count: int, gpus: int) -> None:
    """Make simulated nodes up to ``count``, and delete those above it."""
    listed = api.items(f"{NODES}?labelSelector={MARK}%3Dfake")
    present = {cast("dict[str, str]", item["metadata"])["name"] for item in listed}
    wanted = {node_name(number): number for number in range(1, count + 1)}

    def add(name: str) -> None:
        api.request("POST", NODES, node_object(wanted[name]))
        api.merge(f"{NODES}/{name}/status", node_status(layout, wanted[name], gpus=gpus))

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(add, wanted.keys() - present))
        list(pool.map(lambda name: api.request("DELETE", f"{NODES}/{name}"), present - wanted.keys()))

"""The ground of one size: a control plane with so many Nodes, whoever plays their kubelets, Slurm, and sunkpy.

Nodes and pods are kept by KWOK, bound by kube-scheduler. No kubelet renews its Lease every ten seconds, which alone
would be a thousand writes a second at 10,000 nodes: what is measured is what sunkpy and its peers do.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from devcluster.binaries import KWOK, Binaries
from devcluster.state import default_cache
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.runtime.settings import SlurmSettings
from tests.bench import ground
from tests.bench.ground import SLURM_CLUSTER, ControlPlane, in_flight, make_if_missing
from tests.bench.scale import bodies
from tests.bench.scale.bodies import NAMESPACE, PEER_NAMESPACE, Machines
from tests.integration.slurm.daemons import ROOT, free_ports

KEEPER, DAEMONS = "kwok", "kube-controller-manager"
_CRD = ROOT / "crds/sunkpy.dev_nodesets.yaml"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_AT_ONCE = 16
_NO_LEASES = "--node-lease-duration-seconds=0"


async def furnish(kube: Kube, machines: Machines) -> None:
    """The namespaces, the kind NodeSet, and all Nodes."""
    for name in (NAMESPACE, PEER_NAMESPACE):
        await make_if_missing(kube, paths.NAMESPACES, {"metadata": {"name": name}})
    await make_if_missing(kube, _CRDS, msgspec.yaml.decode(_CRD.read_bytes()))

    async def create(number: int) -> None:
        name = machines.node(number)
        node = ground.node(name, cpus=bodies.CPUS, memory_mib=bodies.MEMORY_MIB, labels={})
        await kube.create(paths.NODES, node)

    await in_flight(_AT_ONCE, (lambda number=number: create(number) for number in range(machines.size)))


async def delete_pods(kube: Kube, namespace: str, which: Sequence[str]) -> None:
    """At once: no kubelet has seen them. As one request it would take longer than a request may."""
    await in_flight(
        _AT_ONCE, (lambda name=name: kube.delete(paths.pod(namespace, name), grace_period_s=0) for name in which)
    )


def start_daemons(plane: ControlPlane, *, is_limited: bool) -> None:
    """The DaemonSet controller, with or without the limit of 20 requests a second that it has by itself."""
    plane.start(
        plane.kubernetes(DAEMONS), f"--kubeconfig={plane.admin}", "--controllers=daemonset-controller",
        "--leader-elect=false", "--secure-port=0", *([] if is_limited else ground.AT_WILL),
    )  # fmt: skip


def start_keeper(plane: ControlPlane) -> None:
    """Who makes pods run that are bound. At its start it asks for the pods of each node, one node after the other."""
    binaries = Binaries(default_cache())
    binaries.ensure([KWOK], progress=print)
    (port,) = free_ports(1)
    plane.start(
        str(binaries.kwok / KEEPER), f"--kubeconfig={plane.admin}", "--manage-all-nodes=true",
        "--node-ip=10.1.0.1", "--cidr=10.128.0.0/9", f"--server-address=127.0.0.1:{port}", _NO_LEASES,
    )  # fmt: skip


def syncer_settings(slurm: SlurmSettings) -> dict[str, object]:
    """As the chart writes them: it may change nodes."""
    return {"cluster": SLURM_CLUSTER, "slurm": msgspec.to_builtins(as_admin(slurm))}


def scheduler_settings(slurm: SlurmSettings) -> dict[str, object]:
    """As the chart writes them; the hooks listen where nobody else does."""
    (port,) = free_ports(1)
    access = [{"namespaces": ["*"], "partitions": ["*"]}]
    own = {"cluster": SLURM_CLUSTER, "slurm": msgspec.to_builtins(slurm), "hooks": {"port": port}}
    return {**own, "defaultPartition": "low", "access": access}


def as_admin(slurm: SlurmSettings) -> SlurmSettings:
    """Of SlurmUser."""
    return msgspec.structs.replace(slurm, user="slurm")

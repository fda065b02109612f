"""The ground of one size: a control plane with so many Nodes, whoever plays their kubelets, Slurm, and sunkpy.

Nodes and pods are kept by KWOK, bound by kube-scheduler. No kubelet renews its Lease every ten seconds, which alone
would be a thousand writes a second at 10,000 nodes: what is measured is what sunkpy and its peers do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from devcluster.binaries import KWOK, Binaries
from devcluster.state import default_cache
from sunkpy.core import names
from sunkpy.core.model.objects import Pod, PodSpec, PodStatus
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer
from sunkpy.runtime.settings import SlurmSettings
from tests.bench import ground
from tests.bench.ground import SLURM_CLUSTER, ControlPlane, in_flight, make_if_missing
from tests.bench.pod_watch import PodWatch
from tests.integration.slurm.daemons import ROOT, free_ports

Body = dict[str, object]

NAMESPACE, PEER_NAMESPACE = "slurm", "peer"
NODESET = "c"
CPUS, MEMORY_MIB = 8, 8192
_CONTAINER = {"name": names.SLURMD_CONTAINER, "image": "none"}
_DIGITS = 5


class Machines(msgspec.Struct, frozen=True):
    """So many equal nodes `n00000`, `n00001` …; their slurmd pods and Slurm nodes are `c-n00000` …"""

    size: int

    def node(self, number: int) -> str:
        """Name of a Node."""
        return f"n{number:0{_DIGITS}}"

    def slurm_node(self, number: int) -> str:
        """Name of its slurmd pod and of its Slurm node: that of the NodeSet and that of the Node."""
        return f"{NODESET}-{self.node(number)}"

    @property
    def slurm_nodes(self) -> list[str]:
        """All of them."""
        return [self.slurm_node(number) for number in range(self.size)]

    @property
    def conf(self) -> str:
        """The line of slurm.conf that defines them, at ease without a slurmd. Slurm 26.05.5 looks ten seconds for the
        address of a name that cannot be resolved, for each job.
        """
        which = f"{NODESET}-n[{0:0{_DIGITS}}-{self.size - 1:0{_DIGITS}}]"
        return f"NodeName={which} NodeAddr=127.0.0.1 CPUs={CPUS} RealMemory={MEMORY_MIB} State=EXTERNAL\n"


def nodeset() -> Body:
    """One slurmd pod on each node."""
    spec = {"cluster": SLURM_CLUSTER, "naming": "NodeName", "template": {"spec": {"containers": [_CONTAINER]}}}
    return {
        "apiVersion": f"{names.API_GROUP}/{names.API_VERSION}",
        "kind": names.NODESET_KIND,
        "metadata": {"name": NODESET},
        "spec": spec,
    }


def daemonset(name: str, *, node_selector: dict[str, str]) -> Body:
    """The same to the DaemonSet controller."""
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [_CONTAINER], "nodeSelector": node_selector}}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": pod}}


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
        node = ground.node(name, cpus=CPUS, memory_mib=MEMORY_MIB, labels={})
        await kube.create(paths.NODES, node)

    await in_flight(_AT_ONCE, (partial(create, number) for number in range(machines.size)))


async def delete_pods(kube: Kube, namespace: str, which: Sequence[str]) -> None:
    """At once: no kubelet has seen them. As one request it would take longer than a request may."""
    gone = (partial(kube.delete, paths.pod(namespace, name), grace_period_s=0) for name in which)
    await in_flight(_AT_ONCE, gone)


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


class Pods(PodWatch):
    """The pods of a namespace: how many, and which of them their Slurm node has drained."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        super().__init__(Informer(kube, paths.pods(namespace), Pod, keep=_kept))
        self._informer.add_handler(self._see)
        self.told: set[str] = set()
        self.drained: set[str] = set()

    def __len__(self) -> int:
        return len(self._informer)

    @property
    def names(self) -> list[str]:
        """Of all that are there."""
        return [pod.name for pod in self._informer.values()]

    def _see(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and new.is_condition_true(names.CONDITION_DRAIN):
            self.drained.add(new.name)
        elif old is not None:
            self.drained.discard(old.name)
        if new is not None and new.condition(names.CONDITION_DRAIN) is not None:
            self.told.add(new.name)


def _kept(pod: Pod) -> Pod:
    return Pod(metadata=pod.metadata, spec=PodSpec(), status=PodStatus(conditions=pod.status.conditions))

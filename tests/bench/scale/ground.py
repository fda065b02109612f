"""The environment of one size: a control plane with that many Nodes, KWOK in place of kubelets, Slurm, and sunkpy.

KWOK keeps Nodes and pods, and kube-scheduler binds pods. Leases of Nodes are not renewed: at 10,000 nodes that would be
a thousand writes a second, and only the work of sunkpy and its peers is to be measured.
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
from tests.integration.slurm.daemons import ROOT
from tests.ports import free_ports

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
        """Return the name of a Node."""
        return f"n{number:0{_DIGITS}}"

    def slurm_node(self, number: int) -> str:
        """Return the name of a Node's slurmd pod and Slurm node: the NodeSet's name and the Node's."""
        return f"{NODESET}-{self.node(number)}"

    @property
    def slurm_nodes(self) -> list[str]:
        """The names of all Slurm nodes."""
        return [self.slurm_node(number) for number in range(self.size)]

    @property
    def conf(self) -> str:
        """The line of slurm.conf that defines the nodes. In state EXTERNAL they need no slurmd.

        They have an address, because for each job Slurm 26.05.5 tries for ten seconds to resolve a name without one.
        """
        which = f"{NODESET}-n[{0:0{_DIGITS}}-{self.size - 1:0{_DIGITS}}]"
        return f"NodeName={which} NodeAddr=127.0.0.1 CPUs={CPUS} RealMemory={MEMORY_MIB} State=EXTERNAL\n"


def nodeset() -> Body:
    """Return a NodeSet with one slurmd pod on each node."""
    spec = {"cluster": SLURM_CLUSTER, "naming": "NodeName", "template": {"spec": {"containers": [_CONTAINER]}}}
    return {
        "apiVersion": f"{names.API_GROUP}/{names.API_VERSION}",
        "kind": names.NODESET_KIND,
        "metadata": {"name": NODESET},
        "spec": spec,
    }


def daemonset(name: str, *, node_selector: dict[str, str]) -> Body:
    """Return a DaemonSet with the same pods."""
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [_CONTAINER], "nodeSelector": node_selector}}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": pod}}


KEEPER, DAEMONS = "kwok", "kube-controller-manager"
_CRD = ROOT / "crds/sunkpy.dev_nodesets.yaml"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_AT_ONCE = 16
_NO_LEASES = "--node-lease-duration-seconds=0"


async def furnish(kube: Kube, machines: Machines) -> None:
    """Make the namespaces, the kind NodeSet, and all Nodes."""
    for name in (NAMESPACE, PEER_NAMESPACE):
        await make_if_missing(kube, paths.NAMESPACES, {"metadata": {"name": name}})
    await make_if_missing(kube, _CRDS, msgspec.yaml.decode(_CRD.read_bytes()))

    async def create(number: int) -> None:
        name = machines.node(number)
        node = ground.node(name, cpus=CPUS, memory_mib=MEMORY_MIB, labels={})
        await kube.create(paths.NODES, node)

    await in_flight(_AT_ONCE, (partial(create, number) for number in range(machines.size)))


async def delete_pods(kube: Kube, namespace: str, which: Sequence[str]) -> None:
    """Delete pods with grace period 0, because no kubelet has seen them; one by one, because one request for all
    would time out.
    """
    gone = (partial(kube.delete, paths.pod(namespace, name), grace_period_s=0) for name in which)
    await in_flight(_AT_ONCE, gone)


def start_daemons(plane: ControlPlane, *, is_limited: bool) -> None:
    """Start the DaemonSet controller, with or without its default limit of 20 requests a second."""
    plane.start(
        plane.kubernetes(DAEMONS), f"--kubeconfig={plane.admin}", "--controllers=daemonset-controller",
        "--leader-elect=false", "--secure-port=0", *([] if is_limited else ground.AT_WILL),
    )  # fmt: skip


def start_keeper(plane: ControlPlane) -> None:
    """Start KWOK, which makes bound pods run. At its start it lists the pods of each node, one node after another."""
    binaries = Binaries(default_cache())
    binaries.ensure([KWOK], progress=print)
    (port,) = free_ports(1)
    plane.start(
        str(binaries.kwok / KEEPER), f"--kubeconfig={plane.admin}", "--manage-all-nodes=true",
        "--node-ip=10.1.0.1", "--cidr=10.128.0.0/9", f"--server-address=127.0.0.1:{port}", _NO_LEASES,
    )  # fmt: skip


def syncer_settings(slurm: SlurmSettings) -> dict[str, object]:
    """Return the syncer's settings as the chart writes them."""
    return {"cluster": SLURM_CLUSTER, "slurm": msgspec.to_builtins(as_admin(slurm))}


def scheduler_settings(slurm: SlurmSettings) -> dict[str, object]:
    """Return the scheduler's settings as the chart writes them, with a free port for hooks."""
    (port,) = free_ports(1)
    access = [{"namespaces": ["*"], "partitions": ["*"]}]
    own = {"cluster": SLURM_CLUSTER, "slurm": msgspec.to_builtins(slurm), "hooks": {"port": port}}
    return {**own, "defaultPartition": "low", "access": access}


def as_admin(slurm: SlurmSettings) -> SlurmSettings:
    """Return the settings of a client that is SlurmUser."""
    return msgspec.structs.replace(slurm, user="slurm")


class Pods(PodWatch):
    """The pods of a namespace: how many there are, and which of them show a drain of their Slurm node."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        super().__init__(Informer(kube, paths.pods(namespace), Pod, keep=_kept))
        self._informer.add_handler(self._see)
        self.told: set[str] = set()
        self.drained: set[str] = set()

    def __len__(self) -> int:
        return len(self._informer)

    @property
    def names(self) -> list[str]:
        """The names of all pods."""
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

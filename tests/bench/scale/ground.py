"""The environment of one size: a control plane with that many Nodes, KWOK in place of kubelets, Slurm, and sunkpy.

KWOK keeps Nodes and pods, and kube-scheduler binds pods. Leases of Nodes are not renewed: at 10,000 nodes that would be
a thousand writes a second, and only the work of sunkpy and its peers is to be measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from devcluster.binaries import KWOK, Binaries
from devcluster.state import default_cache
from sunkpy.core import names
from sunkpy.core.model.objects import Pod, PodSpec, PodStatus
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer
from tests.bench import ground, simulated
from tests.bench.ground import ControlPlane, PodWatch, in_flight, make_if_missing
from tests.bench.simulated import AT_ONCE, Pool
from tests.ports import free_ports

Body = dict[str, object]

PEER_NAMESPACE = "peer"
KEEPER, DAEMONS = "kwok", "kube-controller-manager"
_NODESET = "c"
_CONTAINER = {"name": names.SLURMD_CONTAINER, "image": "none"}
_NO_LEASES = "--node-lease-duration-seconds=0"


def pool_of(size: int) -> Pool:
    """Return so many nodes, whose slurmd pods are those of one NodeSet."""
    return Pool(name="n", size=size, nodeset=_NODESET)


def nodeset() -> Body:
    return simulated.nodeset(_NODESET, {"containers": [_CONTAINER]}, naming="NodeName")


def daemonset(name: str, *, node_selector: dict[str, str]) -> Body:
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [_CONTAINER], "nodeSelector": node_selector}}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": pod}}


async def furnish(kube: Kube, pool: Pool) -> None:
    await simulated.make_namespace(kube)
    await make_if_missing(kube, paths.NAMESPACES, {"metadata": {"name": PEER_NAMESPACE}})
    await simulated.make_nodesets_known(kube)
    await in_flight(AT_ONCE, (partial(pool.make_node, kube, number, labels={}) for number in range(pool.size)))


async def delete_pods(kube: Kube, namespace: str, which: Sequence[str]) -> None:
    """Delete pods without grace, because no kubelet runs; one by one, because one request for all would time out."""
    gone = (partial(kube.delete, paths.pod(namespace, name), grace_period_s=0) for name in which)
    await in_flight(AT_ONCE, gone)


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

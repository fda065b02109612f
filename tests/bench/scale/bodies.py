"""The objects of a simulated cluster: Nodes, the NodeSet and its peer, lines of slurm.conf. All names follow from N."""

from __future__ import annotations

import msgspec

from sunkpy.core import names
from tests.bench.ground import SLURM_CLUSTER

Body = dict[str, object]

NAMESPACE, PEER_NAMESPACE = "slurm", "peer"
NODESET = "c"
CPUS, MEMORY_MIB = 8, 8192
_CONTAINER = {"name": names.SLURMD_CONTAINER, "image": "none"}
_DIGITS = 5


class _Seen(msgspec.Struct, frozen=True, rename="camel"):
    observed_generation: int = 0


class SeenObject(msgspec.Struct, frozen=True):
    """Any object whose status says up to which generation its controller has seen it."""

    status: _Seen = _Seen()


class _At(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str


class SeenList(msgspec.Struct, frozen=True):
    """Any list, of which only matters at which revision of etcd it is."""

    metadata: _At


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
        """The line of slurm.conf that defines them, at ease without a slurmd."""
        which = f"{NODESET}-n[{0:0{_DIGITS}}-{self.size - 1:0{_DIGITS}}]"
        return f"NodeName={which} CPUs={CPUS} RealMemory={MEMORY_MIB} State=EXTERNAL\n"


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

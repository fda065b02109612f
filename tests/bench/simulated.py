"""Simulated nodes of a Slurm cluster, on the daemons of `tests.bench.ground`.

Each node is a Node, a slurmd pod and a Slurm node. These are only records: no kubelet or slurmd runs, so there is no
Prolog and no Epilog.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from sunkpy.core import names
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from tests.bench.ground import SLURM_CLUSTER, in_flight, make_if_missing
from tests.integration.slurm.daemons import ROOT

NAMESPACE, WORKLOADS = "slurm", "default"
POOL = "node.example.com/pool"
AT_ONCE = 16
_SERVICE_ACCOUNT = "slurmd"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Equal nodes `<name>-00000`, `<name>-00001` …; slurmd pod and Slurm node have the same name, or
    `<nodeset>-<name>-00000` … if there is a `nodeset`.
    """

    name: str
    size: int
    cpus: int = 8
    disk_gib: int = 0
    nodeset: str = ""

    @property
    def memory_mib(self) -> int:
        """The memory of each node: one GiB for each cpu."""
        return 1024 * self.cpus

    @property
    def nodes(self) -> list[str]:
        return [self.node(number) for number in range(self.size)]

    @property
    def slurm_nodes(self) -> list[str]:
        return [self.slurm_node(number) for number in range(self.size)]

    def node(self, number: int) -> str:
        return f"{self.name}-{number:05}"

    def slurm_node(self, number: int) -> str:
        return f"{self._before}{self.node(number)}"

    @property
    def _before(self) -> str:
        return f"{self.nodeset}-" if self.nodeset else ""

    @property
    def conf(self) -> str:
        """The line of slurm.conf that defines the nodes. In state EXTERNAL they need no slurmd.

        They have an address, because for each job Slurm 26.05.5 tries for ten seconds to resolve a name without one.
        """
        which = f"{self._before}{self.name}-[00000-{self.size - 1:05}]"
        return f"NodeName={which} NodeAddr=127.0.0.1 CPUs={self.cpus} RealMemory={self.memory_mib} State=EXTERNAL\n"

    async def make_node(self, kube: Kube, number: int, *, labels: Mapping[str, str]) -> None:
        """Make a Node that is Ready, as its kubelet would keep it; `labels` are added to a kubelet's own."""
        name, disk = self.node(number), f"{self.disk_gib}Gi"
        size = {"cpu": str(self.cpus), "memory": f"{self.memory_mib}Mi", "pods": "250", "ephemeral-storage": disk}
        own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        status = {"capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}]}
        await kube.create(paths.NODES, {"metadata": {"name": name, "labels": {**own, **labels}}, "status": status})

    async def make_slurmd(self, kube: Kube, number: int) -> None:
        """Make a slurmd pod on a node, for a slurmd that does not run."""
        name = self.slurm_node(number)
        labels = {
            names.LABEL_ROLE: names.ROLE_COMPUTE, names.LABEL_CLUSTER: SLURM_CLUSTER, names.LABEL_SLURM_NODE: name,
        }  # fmt: skip
        owner = {
            "apiVersion": f"{names.API_GROUP}/{names.API_VERSION}", "kind": names.NODESET_KIND, "name": "simulated",
            "uid": "nodeset", "controller": True,
        }  # fmt: skip
        containers = [{"name": names.SLURMD_CONTAINER, "image": "none"}]
        spec = {"nodeName": self.node(number), "serviceAccountName": _SERVICE_ACCOUNT, "containers": containers}
        metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
        await kube.create(paths.pods(NAMESPACE), {"metadata": metadata, "spec": spec})


async def furnish(kube: Kube, pools: Sequence[Pool]) -> None:
    """Make all Nodes and slurmd pods of these pools; each Node has its pool as a label."""
    await make_namespace(kube)

    async def make(pool: Pool, number: int) -> None:
        await pool.make_node(kube, number, labels={POOL: pool.name})
        await pool.make_slurmd(kube, number)

    await in_flight(AT_ONCE, (partial(make, pool, number) for pool in pools for number in range(pool.size)))


async def make_namespace(kube: Kube) -> None:
    """Make the namespace of the Slurm cluster, with the service account of its slurmd pods."""
    await make_if_missing(kube, paths.NAMESPACES, {"metadata": {"name": NAMESPACE}})
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    await make_if_missing(kube, accounts, {"metadata": {"name": _SERVICE_ACCOUNT}})


async def make_nodesets_known(kube: Kube) -> None:
    """Make the kind NodeSet."""
    await make_if_missing(kube, _CRDS, msgspec.yaml.decode((ROOT / "crds/sunkpy.dev_nodesets.yaml").read_bytes()))


def nodeset(name: str, template: Mapping[str, object], **spec: object) -> dict[str, object]:
    """Return a NodeSet whose slurmd pods have this `spec` of a pod."""
    return {
        "apiVersion": f"{names.API_GROUP}/{names.API_VERSION}", "kind": names.NODESET_KIND, "metadata": {"name": name},
        "spec": {"cluster": SLURM_CLUSTER, "template": {"spec": template}, **spec},
    }  # fmt: skip


async def token_of(kube: Kube, node: str) -> str:
    """Return the token by which the hooks of a node prove which node they are."""
    pod = json.loads(await kube.request("GET", paths.pod(NAMESPACE, node)))["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{_SERVICE_ACCOUNT}/token"
    made = await kube.create(path, {"spec": {"audiences": [names.HOOKS_AUDIENCE], "boundObjectRef": bound}})
    return str(json.loads(made)["status"]["token"])

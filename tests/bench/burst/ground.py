"""Simulated nodes of a Slurm cluster, on the daemons of `tests.bench.ground`.

Each node is a Node, a slurmd pod and a Slurm node. These are only records: no kubelet or slurmd runs, so there is no
Prolog and no Epilog.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import msgspec

from sunkpy.core import names
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from tests.bench import ground

CLUSTER, NAMESPACE, WORKLOADS = "bench", "slurm", "default"
SERVICE_ACCOUNT = "slurmd"
POOL = "node.example.com/pool"
_AT_ONCE = 16


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes `<name>-000`, `<name>-001` …, all alike, with the name of their pool as a label."""

    name: str
    size: int
    cpus: int
    disk_gib: int = 0

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes, the same in Kubernetes and in Slurm."""
        return [f"{self.name}-{number:03}" for number in range(self.size)]

    @property
    def memory_mib(self) -> int:
        """The memory of each node in MiB: one GiB for each cpu."""
        return 1024 * self.cpus

    @property
    def conf(self) -> str:
        """The line of slurm.conf that defines the nodes."""
        which = f"{self.name}-[000-{self.size - 1:03}]"
        return f"NodeName={which} NodeAddr=127.0.0.1 CPUs={self.cpus} RealMemory={self.memory_mib} State=EXTERNAL\n"


async def furnish(kube: Kube, pools: Sequence[Pool]) -> None:
    """Make the Nodes and slurmd pods of these pools, with their namespace and service account."""
    await ground.make_if_missing(kube, paths.NAMESPACES, {"metadata": {"name": NAMESPACE}})
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    await ground.make_if_missing(kube, accounts, {"metadata": {"name": SERVICE_ACCOUNT}})
    which = [(pool, name) for pool in pools for name in pool.nodes]

    async def make(pool: Pool, name: str) -> None:
        size = {"cpus": pool.cpus, "memory_mib": pool.memory_mib, "disk_gib": pool.disk_gib}
        await kube.create(paths.NODES, ground.node(name, labels={POOL: pool.name}, **size))
        await kube.create(paths.pods(NAMESPACE), slurmd(name, cluster=CLUSTER, slurm_node=name))

    await ground.in_flight(_AT_ONCE, (partial(make, pool, name) for pool, name in which))


def slurmd(node: str, *, cluster: str, slurm_node: str) -> dict[str, object]:
    """Return a slurmd pod on a node, for a slurmd that does not run."""
    labels = {names.LABEL_ROLE: names.ROLE_COMPUTE, names.LABEL_CLUSTER: cluster, names.LABEL_SLURM_NODE: slurm_node}
    owner = {
        "apiVersion": f"{names.API_GROUP}/v1alpha1", "kind": names.NODESET_KIND, "name": "simulated", "uid": "nodeset",
        "controller": True,
    }  # fmt: skip
    return {
        "metadata": {"name": slurm_node, "labels": labels, "ownerReferences": [owner]},
        "spec": {
            "nodeName": node,
            "serviceAccountName": SERVICE_ACCOUNT,
            "containers": [{"name": "slurmd", "image": "none"}],
        },
    }


async def token_of(kube: Kube, node: str, *, audience: str) -> str:
    """Return the token by which the hooks of a node prove which node they are."""
    pod = json.loads(await kube.request("GET", paths.pod(NAMESPACE, node)))["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{SERVICE_ACCOUNT}/token"
    made = await kube.create(path, {"spec": {"audiences": [audience], "boundObjectRef": bound}})
    return str(json.loads(made)["status"]["token"])

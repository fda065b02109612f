"""A Slurm cluster's simulated nodes, on the ground of `tests.bench.ground`.

Each node is a Node, a slurmd pod and a Slurm node, all three of them text: no kubelet, no slurmd, so no Prolog and no
Epilog.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from sunkpy.core import names
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from tests.bench import ground
from tests.bench.ground import RunningSlurm

CLUSTER, NAMESPACE, WORKLOADS = "bench", "slurm", "default"
SERVICE_ACCOUNT = "slurmd"
POOL = "node.example.com/pool"
_AT_ONCE = 16


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes `<name>-000`, `<name>-001` …, all alike, labelled with the name of their pool."""

    name: str
    size: int
    cpus: int

    @property
    def nodes(self) -> list[str]:
        """Their names, the same on both sides."""
        return [f"{self.name}-{number:03}" for number in range(self.size)]

    @property
    def memory_mib(self) -> int:
        """A GiB for each cpu."""
        return 1024 * self.cpus

    @property
    def conf(self) -> str:
        """Its line of slurm.conf."""
        which = f"{self.name}-[000-{self.size - 1:03}]"
        return f"NodeName={which} CPUs={self.cpus} RealMemory={self.memory_mib} State=EXTERNAL\n"


async def furnish(kube: Kube, pools: Sequence[Pool]) -> None:
    """Make the Nodes and slurmd pods of these pools, and what both need."""
    await ground.answers(kube)
    await ground.make_if_missing(kube, paths.NAMESPACES, {"metadata": {"name": NAMESPACE}})
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    await ground.make_if_missing(kube, accounts, {"metadata": {"name": SERVICE_ACCOUNT}})
    limit = asyncio.Semaphore(_AT_ONCE)

    async def make(pool: Pool, name: str) -> None:
        async with limit:
            await kube.create(paths.NODES, _node(pool, name))
            await kube.create(paths.pods(NAMESPACE), _slurmd(name))

    await asyncio.gather(*(make(pool, name) for pool in pools for name in pool.nodes))


def _node(pool: Pool, name: str) -> dict[str, object]:
    size = {"cpu": str(pool.cpus), "memory": f"{pool.memory_mib}Mi", "pods": "250"}
    labels = {"kubernetes.io/hostname": name, POOL: pool.name}
    status = {"capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def _slurmd(node: str) -> dict[str, object]:
    labels = {names.LABEL_ROLE: names.ROLE_COMPUTE, names.LABEL_CLUSTER: CLUSTER, names.LABEL_SLURM_NODE: node}
    owner = {
        "apiVersion": f"{names.API_GROUP}/v1alpha1", "kind": names.NODESET_KIND, "name": "simulated", "uid": "nodeset",
        "controller": True,
    }  # fmt: skip
    return {
        "metadata": {"name": f"slurmd-{node}", "labels": labels, "ownerReferences": [owner]},
        "spec": {
            "nodeName": node,
            "serviceAccountName": SERVICE_ACCOUNT,
            "containers": [{"name": "slurmd", "image": "none"}],
        },
    }


async def token_of(kube: Kube, node: str, *, audience: str) -> str:
    """What the hooks of a node prove with who they are."""
    pod = json.loads(await kube.request("GET", paths.pod(NAMESPACE, f"slurmd-{node}")))["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{SERVICE_ACCOUNT}/token"
    made = await kube.create(path, {"spec": {"audiences": [audience], "boundObjectRef": bound}})
    return str(json.loads(made)["status"]["token"])


@contextlib.asynccontextmanager
async def slurm_of(folder: Path, pools: Sequence[Pool]) -> AsyncIterator[RunningSlurm]:
    """A new Slurm with these nodes and an empty table of jobs."""
    conf = "".join(pool.conf for pool in pools)
    async with ground.slurm_of(folder, conf, count=sum(pool.size for pool in pools)) as running:
        yield running

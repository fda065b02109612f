"""A real etcd, apiserver, slurmctld and slurmrestd on loopback, with nodes that are not there.

Each node is a Node, a slurmd pod and a Slurm node, all three of them text: no kubelet, no slurmd, so no Prolog and no
Epilog. slurmctld 26.05 starts *external* jobs on nodes in state EXTERNAL without speaking to anybody; a job_submit
script makes every job one, whoever submits it, so that the scheduler and its peer submit what they always do. Rights
are not in play: everybody is an administrator.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import msgspec

from devcluster.binaries import KUBERNETES, Binaries
from devcluster.pki import render_kubeconfig, token_line
from devcluster.shell import run
from devcluster.state import default_cache
from devcluster.waiting import wait_until
from sunkpy.core import names
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import SlurmError
from tests.integration.slurm.daemons import Machines, RealSlurm, free_ports
from tests.polling import until

SUITE = "sid"
CLUSTER, NAMESPACE, WORKLOADS = "bench", "slurm", "default"
USER = "k8s"
SERVICE_ACCOUNT = "slurmd"
POOL = "node.example.com/pool"
_AT_ONCE = 16
_PATIENCE_S = 300.0

_CONF = """\
MaxJobCount=50000
MessageTimeout=60
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,nohold_on_prolog_fail
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobSubmitPlugins=lua
"""

_EVERY_JOB_IS_EXTERNAL = """\
local EXTERNAL_JOB = 16777216
function slurm_job_submit(job, partitions, uid)
  if math.floor(job.bitflags / EXTERNAL_JOB) % 2 == 0 then job.bitflags = job.bitflags + EXTERNAL_JOB end
  if job.script ~= nil then job.script = "" end
  return slurm.SUCCESS
end
function slurm_job_modify(change, job, partitions, uid) return slurm.SUCCESS end
return slurm.SUCCESS
"""


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


class ControlPlane:
    """etcd and kube-apiserver, alone on free ports of loopback, ended with this process whatever becomes of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        binaries = Binaries(default_cache())
        binaries.ensure([KUBERNETES], progress=print)
        etcd, peer, port = free_ports(3)
        token, key = secrets.token_hex(16), folder / "sa.key"
        run(["openssl", "genrsa", "-out", str(key), "2048"])
        (folder / "tokens.csv").write_text(token_line(token, "admin", "admin", "system:masters") + "\n")
        self._processes = [
            self._start("etcd", *_etcd(folder, etcd, peer)),
            self._start(str(binaries.kubernetes / "kube-apiserver"), *_apiserver(folder, etcd, port, key)),
        ]
        self.kubeconfig = folder / "kubeconfig"
        certificate = folder / "pki/apiserver.crt"
        if not wait_until(certificate.exists, timeout_s=_PATIENCE_S, every_s=0.1):
            raise TimeoutError(f"kube-apiserver does not start: see {folder}")
        server, ca = f"https://127.0.0.1:{port}", certificate.read_text()
        text = render_kubeconfig(cluster=CLUSTER, server=server, ca=ca, user="admin", token=token)
        self.kubeconfig.write_text(text)

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{Path(program).name}.log").open("ab") as log:
            argv = ["setpriv", "--pdeathsig", "KILL", program, *arguments]
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self) -> None:
        """End both and forget what they kept."""
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        shutil.rmtree(self._folder)


def _etcd(folder: Path, port: int, peer: int) -> list[str]:
    client, peers = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer}"
    return [
        f"--data-dir={folder}/etcd", f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync", "--quota-backend-bytes=4294967296",
    ]  # fmt: skip


def _apiserver(folder: Path, etcd: int, port: int, key: Path) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}", f"--cert-dir={folder}/pki", f"--secure-port={port}",
        "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--service-cluster-ip-range=10.254.0.0/16",
        f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=RBAC", "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}", "--disable-admission-plugins=ServiceAccount",
        "--feature-gates=WatchList=false", "--endpoint-reconciler-type=none",
    ]  # fmt: skip


async def furnish(kube: Kube, pools: Sequence[Pool]) -> None:
    """Make the Nodes and slurmd pods of these pools, and what both need."""
    await until(lambda: _answers(kube), timeout_s=_PATIENCE_S, what="kube-apiserver answers")
    with contextlib.suppress(errors.Conflict):
        await kube.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    with contextlib.suppress(errors.Conflict):
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        await kube.create(path, {"metadata": {"name": SERVICE_ACCOUNT}})
    limit = asyncio.Semaphore(_AT_ONCE)

    async def make(pool: Pool, name: str) -> None:
        async with limit:
            await kube.create(paths.NODES, _node(pool, name))
            await kube.create(paths.pods(NAMESPACE), _slurmd(name))

    await asyncio.gather(*(make(pool, name) for pool in pools for name in pool.nodes))


async def _answers(kube: Kube) -> bool:
    with contextlib.suppress(errors.KubeError):
        await kube.request("GET", "/api/v1/namespaces/default")
        return True
    return False


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
async def slurm_of(folder: Path, pools: Sequence[Pool]) -> AsyncIterator[tuple[Slurm, SlurmSettings]]:
    """A new Slurm with these nodes and an empty table of jobs: a client as the scheduler's user, and its settings."""
    conf = f"MaxNodeCount={sum(pool.size for pool in pools)}\n{_CONF}{''.join(pool.conf for pool in pools)}"
    machines = Machines(conf=conf, files={"job_submit.lua": _EVERY_JOB_IS_EXTERNAL})
    with _running(folder, machines) as real:
        settings = SlurmSettings(url=real.url, user=USER, jwt_key_file=str(real.key_file))
        slurm = Slurm.connect(settings)
        try:
            await until(lambda: _is_up(slurm), timeout_s=_PATIENCE_S, what="slurmctld has its nodes")
            yield slurm, settings
        finally:
            await slurm.close()


@contextlib.contextmanager
def _running(folder: Path, machines: Machines) -> Iterator[RealSlurm]:
    folder.mkdir(parents=True)
    real = RealSlurm(folder, SUITE, machines=machines)
    try:
        yield real
    finally:
        real.stop()


async def _is_up(slurm: Slurm) -> bool:
    with contextlib.suppress(SlurmError):
        await slurm.nodes()
        return True
    return False

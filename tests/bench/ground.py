"""A real etcd, apiserver, slurmctld and slurmrestd on loopback, for nodes that are not there.

slurmctld 26.05 starts *external* jobs on nodes in state EXTERNAL without speaking to anybody; a job_submit script makes
every job one, whoever submits it, so that everybody submits what they always do. Rights are not in play: everybody is
an administrator. What is started here ends with the bench, whatever becomes of it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

from devcluster.binaries import KUBERNETES, Binaries
from devcluster.pki import render_kubeconfig, token_line
from devcluster.shell import run
from devcluster.state import default_cache
from devcluster.waiting import wait_until
from sunkpy.kube import errors
from sunkpy.kube.client import Kube
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import SlurmError
from tests.integration.slurm.daemons import Machines, RealSlurm, free_ports
from tests.polling import until

SUITE = "sid"
SLURM_CLUSTER = "it"
USER = "k8s"
PATIENCE_S = 300.0
_CONTEXT = "bench"
BINDER = "kube-scheduler"
AT_WILL = ["--kube-api-qps=1000", "--kube-api-burst=1000"]
"""What no program of the ground comes near, in place of the limits that Kubernetes' own have by themselves."""

_CONF = """\
MaxJobCount=50000
MessageTimeout=60
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,default_queue_depth=1000,nohold_on_prolog_fail
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


def spawn(argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a program that is killed with this process; `env` instead of ours, both outputs to the end of `log`."""
    with log.open("ab") as said:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *argv], env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )


class ControlPlane:
    """etcd and kube-apiserver, alone on free ports of loopback, and what is started beside them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        self._binaries = Binaries(default_cache())
        self._binaries.ensure([KUBERNETES], progress=print)
        etcd, peer, port = free_ports(3)
        token, key = secrets.token_hex(16), folder / "sa.key"
        run(["openssl", "genrsa", "-out", str(key), "2048"])
        (folder / "tokens.csv").write_text(token_line(token, "admin", "admin", "system:masters") + "\n")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.start("etcd", *_etcd(folder, etcd, peer))
        self.start(self.kubernetes("kube-apiserver"), *_apiserver(folder, etcd, port, key))
        self.kubeconfig = folder / "kubeconfig"
        certificate = folder / "pki/apiserver.crt"
        if not wait_until(certificate.exists, timeout_s=PATIENCE_S, every_s=0.1):
            raise TimeoutError(f"kube-apiserver does not start: see {folder}")
        server, ca = f"https://127.0.0.1:{port}", certificate.read_text()
        text = render_kubeconfig(cluster=_CONTEXT, server=server, ca=ca, user="admin", token=token)
        self.kubeconfig.write_text(text)

    def kubernetes(self, program: str) -> str:
        """Where a program of Kubernetes is."""
        return str(self._binaries.kubernetes / program)

    def start(self, program: str, *arguments: str) -> None:
        """Start a program beside the others, under its own name."""
        name = Path(program).name
        env = {**os.environ, "HOME": str(self._folder)}
        self.processes[name] = spawn([program, *arguments], log=self._folder / f"{name}.log", env=env)

    def start_binder(self) -> None:
        """Kubernetes' own scheduler; `end(BINDER)`."""
        only = ["--leader-elect=false", "--secure-port=0"]
        self.start(self.kubernetes(BINDER), f"--kubeconfig={self.kubeconfig}", *only, *AT_WILL)

    def end(self, name: str) -> None:
        """End one of them."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """End all of them, the last one first, and forget what they kept."""
        for name in reversed([*self.processes]):
            self.end(name)
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
        f"--service-account-signing-key-file={key}", "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        "--feature-gates=WatchList=false", "--endpoint-reconciler-type=none",
    ]  # fmt: skip


async def answers(kube: Kube) -> None:
    """Wait until the apiserver does."""
    await until(lambda: _is_there(kube), timeout_s=PATIENCE_S, what="kube-apiserver answers")


async def _is_there(kube: Kube) -> bool:
    with contextlib.suppress(errors.KubeError):
        await kube.request("GET", "/api/v1/namespaces/default")
        return True
    return False


async def make_if_missing(kube: Kube, path: str, body: dict[str, object]) -> None:
    """Create what may be there from before."""
    with contextlib.suppress(errors.Conflict):
        await kube.create(path, body)


class RunningSlurm:
    """A Slurm that has its nodes: a client as the user of sunkpy, the settings for others, and its daemons."""

    def __init__(self, slurm: Slurm, settings: SlurmSettings, real: RealSlurm) -> None:
        self.slurm = slurm
        self.settings = settings
        self.real = real

    @property
    def pid(self) -> int:
        """The parent of its processes."""
        return self.real.pid


@contextlib.asynccontextmanager
async def slurm_of(folder: Path, nodes: str, *, count: int) -> AsyncIterator[RunningSlurm]:
    """A new Slurm with an empty table of jobs; `nodes` are its `count` nodes as lines of slurm.conf."""
    conf = f"MaxNodeCount={count}\n{_CONF}{nodes}"
    machines = Machines(conf=conf, files={"job_submit.lua": _EVERY_JOB_IS_EXTERNAL})
    with _running(folder, machines) as real:
        settings = SlurmSettings(url=real.url, user=USER, jwt_key_file=str(real.key_file))
        slurm = Slurm.connect(settings)
        try:
            await until(lambda: _is_up(slurm), timeout_s=PATIENCE_S, what="slurmctld has its nodes")
            yield RunningSlurm(slurm, settings, real)
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

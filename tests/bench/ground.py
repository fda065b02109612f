"""A real etcd, apiserver, slurmctld and slurmrestd on loopback, for nodes that are not there.

slurmctld 26.05 starts *external* jobs on nodes in state EXTERNAL without speaking to anybody; a job_submit script makes
every job one, whoever submits it, so that everybody submits what they always do. Rights are not in play: everybody is
an administrator. What is started here ends with the bench, whatever becomes of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path

from sunkpy.kube import errors
from sunkpy.kube.client import Kube
from sunkpy.runtime.process import settle_garbage_collector
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import SlurmError
from tests.integration.apiserver import Apiserver
from tests.integration.slurm.daemons import KEEP_SLURMCTLD, Machines, RealSlurm
from tests.polling import until

SUITE = "sid"
SLURM_CLUSTER = "it"
USER = "k8s"
PATIENCE_S = 300.0
BINDER = "kube-scheduler"
AT_WILL = ["--kube-api-qps=1000", "--kube-api-burst=1000"]
"""What no program of the ground comes near, in place of the limits that Kubernetes' own have by themselves."""

_NOTHING_IS_ADDED = (
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    "--endpoint-reconciler-type=none",
)

_NO_FILES: Mapping[str, str] = {}
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


class ControlPlane(Apiserver):
    """etcd and kube-apiserver, alone on free ports of loopback, and what is started beside them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {}, flags=_NOTHING_IS_ADDED)
        self.folder = folder
        self.admin = self.kubeconfig("admin")

    def start_binder(self) -> None:
        """Kubernetes' own scheduler; `end(BINDER)`."""
        only = ["--leader-elect=false", "--secure-port=0"]
        self.start(self.kubernetes(BINDER), f"--kubeconfig={self.admin}", *only, *AT_WILL)


@contextlib.contextmanager
def control_plane(bench: str) -> Iterator[ControlPlane]:
    """One for a bench, with a `folder` that is gone afterwards."""
    settle_garbage_collector()
    with tempfile.TemporaryDirectory(prefix=f"sunkpy-{bench}-") as folder:
        plane = ControlPlane(Path(folder))
        try:
            yield plane
        finally:
            plane.stop()


async def make_if_missing(kube: Kube, path: str, body: dict[str, object]) -> None:
    """Create what may be there from before."""
    with contextlib.suppress(errors.Conflict):
        await kube.create(path, body)


def node(name: str, *, cpus: int, memory_mib: int, labels: Mapping[str, str], disk_gib: int = 0) -> dict[str, object]:
    """A Node that is ready, as its keeper leaves it too; `labels` beside those of a kubelet."""
    size = {"cpu": str(cpus), "memory": f"{memory_mib}Mi", "pods": "250", "ephemeral-storage": f"{disk_gib}Gi"}
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    status = {"capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": {**own, **labels}}, "status": status}


async def in_flight(limit: int, calls: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Make all calls, so many at a time.

    Raises:
        Exception: of the first that failed.
    """
    left = iter(calls)

    async def work() -> None:
        for call in left:
            await call()

    async with asyncio.TaskGroup() as group:
        for _ in range(limit):
            group.create_task(work())


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
async def slurm_of(
    folder: Path, nodes: str, *, count: int, files: Mapping[str, str] = _NO_FILES, slurmctld: str = KEEP_SLURMCTLD
) -> AsyncIterator[RunningSlurm]:
    """A new Slurm with an empty table of jobs; `nodes` are its `count` nodes as lines of slurm.conf.

    `files`: more that it has; `slurmctld`: what keeps slurmctld running.
    """
    conf = f"MaxNodeCount={count}\n{_CONF}{nodes}"
    files = {"job_submit.lua": _EVERY_JOB_IS_EXTERNAL, **files}
    machines = Machines(conf=conf, files=files, slurmctld=slurmctld)
    await asyncio.to_thread(folder.mkdir, parents=True)
    real = RealSlurm(folder, SUITE, machines=machines)
    settings = SlurmSettings(url=real.url, user=USER, jwt_key_file=str(real.key_file))
    slurm = Slurm.connect(settings)
    try:
        await until(lambda: _is_up(slurm), timeout_s=PATIENCE_S, what="slurmctld has its nodes")
        yield RunningSlurm(slurm, settings, real)
    finally:
        await slurm.close()
        real.stop()


async def _is_up(slurm: Slurm) -> bool:
    with contextlib.suppress(SlurmError):
        await slurm.nodes()
        return True
    return False

"""A real etcd, apiserver, slurmctld and slurmrestd on loopback, for benches with simulated nodes.

slurmctld 26.05 starts *external* jobs on nodes in state EXTERNAL without contacting a slurmd. A job_submit script makes
every job external, so clients submit what they always do. Everybody is an administrator. All processes end with the
bench, however it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from sunkpy.core.model.objects import Pod
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer
from sunkpy.runtime.process import settle_garbage_collector
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import SlurmError
from sunkpy.syncer.places import ConfigMap
from tests.bench import census
from tests.integration.apiserver import Apiserver
from tests.integration.slurm.daemons import KEEP_SLURMCTLD, Machines, RealSlurm
from tests.polling import until

SUITE = "sid"
SLURM_CLUSTER = "it"
USER = "k8s"
PATIENCE_S = 1800.0
"""How long a bench waits for something before it gives up: with 10,000 nodes on two cores much takes minutes."""
BINDER = "kube-scheduler"
AT_WILL = ["--kube-api-qps=1000", "--kube-api-burst=1000"]
"""A limit on requests that no program of a bench reaches, in place of the default of Kubernetes' components."""

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
    """etcd and kube-apiserver alone on free ports of loopback, and other programs that a bench starts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {}, flags=_NOTHING_IS_ADDED)
        self.folder = folder
        self.admin = self.kubeconfig("admin")

    def pids(self, own: Mapping[str, int], *, slurm: int = 0) -> dict[str, int]:
        """Return the process ids of all programs by name: with `own`, the bench, and Slurm's daemons below `slurm`."""
        started = {name: process.pid for name, process in self.processes.items()}
        daemons = census.slurm_daemons_of(slurm) if slurm else {}
        return {**started, **daemons, **own, "bench": os.getpid()}

    def start_binder(self) -> None:
        """Start kube-scheduler; `end(BINDER)` ends it."""
        only = ["--leader-elect=false", "--secure-port=0"]
        self.start(self.kubernetes(BINDER), f"--kubeconfig={self.admin}", *only, *AT_WILL)


@contextlib.contextmanager
def control_plane(bench: str) -> Iterator[ControlPlane]:
    """Yield a control plane for a bench; its `folder` is removed afterwards."""
    settle_garbage_collector()
    with tempfile.TemporaryDirectory(prefix=f"sunkpy-{bench}-") as folder:
        plane = ControlPlane(Path(folder))
        try:
            yield plane
        finally:
            plane.stop()


async def make_if_missing(kube: Kube, path: str, body: dict[str, object]) -> None:
    with contextlib.suppress(errors.Conflict):
        await kube.create(path, body)


async def in_flight(limit: int, calls: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Make all calls, at most `limit` at a time.

    Raises:
        Exception: that of the first call that failed.
    """
    left = iter(calls)

    async def work() -> None:
        for call in left:
            await call()

    async with asyncio.TaskGroup() as group:
        for _ in range(limit):
            group.create_task(work())


@contextlib.asynccontextmanager
async def beside(*work: Coroutine[object, object, object]) -> AsyncIterator[None]:
    """Do the work while the block runs.

    Raises:
        Exception: that of the block; or of the work, which then ends the block.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def bring(kube: Kube, namespace: str, config_map: str, put: Callable[[str, str], object]) -> None:
    """Bring each changed key of a ConfigMap, with its text, to a node each second; a kubelet takes a minute."""
    brought: Mapping[str, str] = {}
    while True:
        data = (await kube.get(paths.config_map(namespace, config_map), ConfigMap)).data
        for name, text in data.items():
            if brought.get(name) != text:
                put(name, text)
        brought = data
        await asyncio.sleep(1.0)


class PodWatch:
    def __init__(self, informer: Informer[Pod]) -> None:
        self._informer = informer
        self._informer.add_handler(self._wake)
        self._changed = asyncio.Event()

    def _wake(self, _: Pod | None, __: Pod | None) -> None:
        self._changed.set()

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        async with beside(self._informer.run()):
            await self._informer.synced.wait()
            yield

    async def until(self, is_so: Callable[[], bool], *, what: str, timeout_s: float = PATIENCE_S) -> float:
        """Wait until `is_so` is true after an event of the watch. Return when that was (monotonic).

        Raises:
            TimeoutError: it did not become true; the text names `what`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not is_so():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"{what}: not so after {timeout_s:g} s") from None
        return time.monotonic()


class RunningSlurm(NamedTuple):
    """A running Slurm: a client as sunkpy's Slurm user, settings for other clients, and its daemons."""

    slurm: Slurm
    settings: SlurmSettings
    real: RealSlurm


@contextlib.asynccontextmanager
async def slurm_of(
    folder: Path, nodes: str, *, count: int, files: Mapping[str, str] = _NO_FILES, slurmctld: str = KEEP_SLURMCTLD
) -> AsyncIterator[RunningSlurm]:
    """Yield a new Slurm without jobs; `nodes` are lines of slurm.conf that define its `count` nodes.

    `files`: further files in its folder of configuration. `slurmctld`: a shell command that keeps slurmctld running.
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


async def time_cordon(kube: Kube, slurm: Slurm, node: str, slurm_node: str) -> float:
    """Cordon a Node. Return the seconds until Slurm shows the drain, to 0.02 s; then undo it, and wait for that."""

    async def until_shown(*, is_drain: bool) -> None:
        async def is_shown() -> bool:
            return (await slurm.node(slurm_node)).is_drain is is_drain

        await until(is_shown, timeout_s=60, what=f"Slurm node {slurm_node} is as its Node", every_s=0.02)

    began_s, path = time.monotonic(), paths.node(node)
    await kube.patch(path, {"spec": {"unschedulable": True}})
    await until_shown(is_drain=True)
    took_s = time.monotonic() - began_s
    await kube.patch(path, {"spec": {"unschedulable": None}})
    await until_shown(is_drain=False)
    return took_s

"""Two clusters with a long queue: simulated nodes, and the real nodes of `make demo`.

Jobs hold all nodes but two, each for another number of hours. Each queued job wants three whole nodes. So two nodes are
idle, no queued job fits, and Slurm can plan when each will start. The queue belongs to one user, the measured jobs to
others. Jobs are queued in a partition that is DOWN, because slurmctld takes them in ten times as fast there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Sequence

import yaml

from demo import bring_up, person
from demo.stack import JOBS, ROOT, Stack
from sunkpy.core import names
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId, is_job_running
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.slurm import Slurm
from tests.bench import census, ground
from tests.bench.burst.load import MEMORY_MIB, Pods, Wave, all_run, submit_plain
from tests.bench.clusters import time_sbatch
from tests.bench.ground import ControlPlane, RunningSlurm
from tests.bench.ours import scheduling
from tests.bench.simulated import WORKLOADS, Pool, furnish
from tests.e2e import processes, workloads
from tests.e2e.slurm_access import slurm_client
from tests.polling import until

PATIENCE_S = 60.0
"""What has no node after this many seconds is counted with this time."""
DOORS = ("service", "pod", "sbatch")
OWNER = person.NAME
IDLE, WANTED = 2, 3
_SMALL_MIN, _QUEUED_MIN, _RUNNING_MIN = 5, 60, 600
_KEEPS_NODE = "#!/bin/sh\nexec sleep 360000\n"
_CLEAR_S = 900.0
_LIMIT = {f"{names.PREFIX}time-limit": str(_SMALL_MIN)}


def chart_parameters() -> list[str]:
    values = yaml.safe_load((ROOT / "charts/slurm/values.yaml").read_text())
    options = values["slurmConfig"]["conf"]["SchedulerParameters"]
    return [name if value is True else f"{name}={value}" for name, value in options.items()]


async def take_nodes(side: Side) -> None:
    """Fill all nodes but the idle ones, each with a job."""
    jobs = [
        JobSpec(name=JOBS, script=_KEEPS_NODE, shared="none", time_limit_min=_RUNNING_MIN + 7 * number)
        for number in range(side.nodes - IDLE)
    ]
    async with side.slurm() as slurm:
        await all_run(slurm, await submit_plain(slurm, jobs, user=OWNER))


async def queue_more(side: Side, count: int) -> JobId:
    """Queue `count` more jobs. Return the first of them."""
    await asyncio.to_thread(side.admin, "scontrol", "update", "partitionname=low", "state=down")
    jobs = (
        JobSpec(
            name=JOBS, script=_KEEPS_NODE, shared="none", minimum_nodes=WANTED, maximum_nodes=WANTED, tasks=WANTED,
            time_limit_min=_QUEUED_MIN + number % 600,
        )
        for number in range(count)
    )  # fmt: skip
    async with side.slurm() as slurm:
        made = await submit_plain(slurm, jobs, user=OWNER)
    await asyncio.to_thread(side.admin, "scontrol", "update", "partitionname=low", "state=up")
    return min(made)


class Simulated:
    """A cluster of nodes that only slurmctld knows. A pod is bound at the scheduler's next poll after its job began."""

    def __init__(self, running: RunningSlurm, kube: Kube, pods: Pods, nodes: int) -> None:
        self.name, self.nodes = f"{nodes} simulated nodes", nodes
        self._running = running
        self.kube, self.pods, self.grace_s = kube, pods, 0  # no kubelet runs

    def body(self, name: str, restart_policy: str) -> dict[str, object]:
        """Return a small pod."""
        (body,) = Wave(name=name, count=1, is_service=restart_policy == "Always").bodies
        return {**body, "metadata": {"name": name, "annotations": _LIMIT}}

    def admin(self, *command: str) -> str:
        return self._running.real.as_user(401, *command)

    def slurm(self) -> contextlib.AbstractAsyncContextManager[Slurm]:
        """Return a client that may submit as any user."""
        return contextlib.nullcontext(self._running.slurm)

    async def use(self, parameters: Sequence[str]) -> None:
        """Make slurmctld use these SchedulerParameters by a reconfigure; the queue stays."""
        wanted = f"SchedulerParameters={','.join([*parameters, 'nohold_on_prolog_fail'])}"
        conf = self._running.real.root / "etc/slurm/slurm.conf"
        conf.write_text(re.sub(r"^SchedulerParameters=.*$", wanted, conf.read_text(), flags=re.MULTILINE))
        self.admin("scontrol", "reconfigure")

        async def is_used() -> bool:
            with contextlib.suppress(AssertionError):  # it starts anew
                return wanted.partition("=")[2] in self.admin("scontrol", "show", "config")
            return False

        await until(is_used, timeout_s=PATIENCE_S, what=wanted)

    def slurmctld(self) -> Sequence[int]:
        return [census.slurm_daemons_of(self._running.real.pid)["slurmctld"]]

    async def sbatch(self, name: str) -> float:
        """Submit a small job by slurmrestd, as sbatch does by slurmctld. Return the seconds until it runs."""
        slurm, began_s = self._running.slurm, time.monotonic()
        job = JobSpec(name=name, script="#!/bin/sh\n", memory_mib_per_node=MEMORY_MIB, time_limit_min=_SMALL_MIN)
        made = (await slurm.submit_job(job)).job_id

        async def runs() -> bool:
            return is_job_running((await slurm.jobs_state([made])).get(made, frozenset()))

        with contextlib.suppress(TimeoutError):
            await until(runs, timeout_s=PATIENCE_S, what=f"{name} runs", every_s=0.05)
        took_s = min(time.monotonic() - began_s, PATIENCE_S)
        await slurm.cancel_job(made)
        return took_s


@contextlib.asynccontextmanager
async def simulated(plane: ControlPlane, nodes: int) -> AsyncIterator[Simulated]:
    """Yield a Slurm 26.05 with `nodes` nodes, with a control plane and a scheduler."""
    pool = Pool(name="many", size=nodes)
    async with (
        await Kube.connect(plane.admin) as kube,
        ground.slurm_of(plane.folder / "slurm", pool.conf, count=nodes) as running,
    ):
        await furnish(kube, [pool])
        running.real.know({OWNER: 2001})
        pods = Pods(kube)
        async with scheduling(plane.folder / "scheduler", plane.admin, running.settings, holds=[]), pods.watched():
            yield Simulated(running, kube, pods, nodes)


class Real:
    def __init__(self, stack: Stack, kube: Kube) -> None:
        self._stack = stack
        self.nodes = len(stack.nodes())
        self.name = f"{self.nodes} real nodes"
        self.kube, self.pods, self.grace_s = kube, Pods(kube), 1

    def body(self, name: str, restart_policy: str) -> dict[str, object]:
        return workloads.pod(
            name, image=self._stack.images["sunkpy"], scheduler=self._stack.scheduler_name, annotations=_LIMIT,
            command=["sleep", "600"], restart_policy=restart_policy,
        )  # fmt: skip

    def admin(self, *command: str) -> str:
        return self._stack.admin(*command, timeout_s=_CLEAR_S)

    @contextlib.asynccontextmanager
    async def slurm(self) -> AsyncIterator[Slurm]:
        """Yield a client of slurmrestd, once it has only one pod: a change of parameters replaces its pod, too."""

        async def is_one() -> bool:
            return len(await asyncio.to_thread(processes.pods_of, self._stack, "slurmrestd")) == 1

        await until(is_one, timeout_s=2 * PATIENCE_S, what="one slurmrestd")
        async with slurm_client(self._stack) as slurm:
            yield slurm

    async def use(self, parameters: Sequence[str]) -> None:
        """Set these SchedulerParameters in the chart's values, by `helm upgrade`; slurmctld restarts."""
        options: dict[str, object] = {each.partition("=")[0]: False for each in chart_parameters()}
        options |= {name: value or True for name, _, value in (each.partition("=") for each in parameters)}
        values = {"conf": {"SchedulerParameters": options, "MaxJobCount": 50_000}}
        await asyncio.to_thread(
            self._stack.helm, "upgrade", self._stack.release, str(ROOT / "charts/slurm"),
            "--namespace", self._stack.namespace, "--reuse-values", "--set-json", f"slurmConfig={json.dumps(values)}",
            "--description", "tests.bench busy", "--wait", "--timeout", "5m",
        )  # fmt: skip

    def slurmctld(self) -> Sequence[int]:
        """Return the process ids of slurmctld, which are visible because the nodes are processes of this machine."""
        return [
            pid
            for pod in processes.pods_of(self._stack, "slurmctld")
            for pid in processes.pids_of(pod, program="slurmctld")
        ]

    async def sbatch(self, name: str) -> float:
        """Submit a small job from the login pod. Return the seconds until the first line of its script."""
        return await asyncio.to_thread(time_sbatch, self._stack, name, f"-t {_SMALL_MIN}", patience_s=PATIENCE_S)


Side = Simulated | Real


async def time_door(side: Side, door: str, name: str) -> float:
    """Return the seconds until a pod or job of this name has a node; `door` is one of DOORS."""
    if door == "sbatch":
        return await side.sbatch(name)
    pods, began_s = side.pods, time.monotonic()
    await pods.create([side.body(name, "Always" if door == "service" else "Never")])
    try:
        await pods.until(lambda: name in pods.bound_s, what=f"{name} bound", timeout_s=PATIENCE_S)
        return pods.bound_s[name] - began_s
    except TimeoutError:
        return PATIENCE_S
    finally:
        await side.kube.delete(paths.pod(WORKLOADS, name), grace_period_s=side.grace_s)
        await pods.until(lambda: pods.get(name) is None, what=f"{name} gone", timeout_s=PATIENCE_S)


@contextlib.asynccontextmanager
async def real(stack: Stack) -> AsyncIterator[Real]:
    """Yield the demo cluster. Afterwards its queue is emptied and its values are reset to those of `make demo`."""
    async with await Kube.connect(stack.kubeconfig) as kube:
        side = Real(stack, kube)
        try:
            async with side.pods.watched():
                yield side
        finally:
            await asyncio.to_thread(side.admin, "scancel", "--quiet", f"--name={JOBS}")
            await asyncio.to_thread(bring_up.install, stack, print)

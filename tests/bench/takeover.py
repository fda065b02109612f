"""A new leader of the scheduler, after an earlier one has bound many pods, and with many more jobs in Slurm.

etcd and the apiserver are real, as in `tests.bench.ground`. Slurm is the double of the unit tests, because a real
slurmctld takes an hour to get that many jobs. The time until hooks are answered is measured. The time until all jobs
are known depends on the double: docs/design/leader.md says how long a real slurmrestd takes to read a job.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from functools import partial

import aiohttp
import msgspec

from sunkpy.core import names
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.states import JobId
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.lease import KubeLease
from sunkpy.runtime.settings import SlurmSettings
from tests.bench import report
from tests.bench.asked import Asked
from tests.bench.burst.load import Pods, Wave
from tests.bench.census import status_mib
from tests.bench.ground import PATIENCE_S, SLURM_CLUSTER, ControlPlane, beside, control_plane, in_flight
from tests.bench.ours import Scheduler
from tests.bench.simulated import AT_ONCE, NAMESPACE, WORKLOADS, Pool, furnish, token_of
from tests.doubles.serving import serving
from tests.doubles.slurmrestd import Slurmrestd

_ANSWERED_S = 10.0
_HELD_S = 0.05
_RSS_MIB = 380
_LOOK_S = 0.02


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods are bound, jobs of others wait and have ended, nodes there are, and on how many hooks call."""

    bound: int = 20_000
    waiting: int = 5_000
    ended: int = 25_000
    nodes: int = 500
    calling: int = 20

    @property
    def jobs(self) -> int:
        return self.bound + self.waiting + self.ended

    @property
    def pool(self) -> Pool:
        """Nodes with enough cpus for all bound pods."""
        return Pool(name="pool", size=self.nodes, cpus=2 * self.bound // self.nodes)


QUICK = Sizes(bound=500, waiting=200, ended=800, nodes=60, calling=5)


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What the earlier leader left. `jobs`: for each node, its pods with their jobs."""

    kube: Kube
    slurm: Slurmrestd
    jobs: dict[str, list[tuple[str, JobId]]]


def measure(asked: Asked) -> list[report.Figure]:
    with control_plane("takeover") as plane:
        return asyncio.run(_measure(plane, QUICK if asked.quick else Sizes()))


async def _measure(plane: ControlPlane, sizes: Sizes) -> list[report.Figure]:
    async with await Kube.connect(plane.admin) as kube:
        await furnish(kube, [sizes.pool])
        ground = Ground(kube=kube, slurm=Slurmrestd(), jobs={node: [] for node in sizes.pool.nodes})
        await _leave(ground, sizes)
        async with serving(ground.slurm.app()) as port:
            url, key = f"http://127.0.0.1:{port}", plane.folder / "key"
            key.write_bytes(secrets.token_bytes(32))
            settings = SlurmSettings(url=url, version="v0.0.42", user="k8s", jwt_key_file=str(key))
            lease = KubeLease(kube, namespace=NAMESPACE, name=f"{SLURM_CLUSTER}-scheduler")
            await lease.write(holder="earlier", duration_s=PATIENCE_S, previous=None)
            scheduler = Scheduler(plane.folder / "scheduler", plane.admin, settings, stands_by=True)
            await scheduler.says("healthz")
            return await _take_over(ground, sizes, scheduler, lease)


async def _leave(ground: Ground, sizes: Sizes) -> None:
    nodes = sizes.pool.nodes
    for node in nodes:
        ground.slurm.put(node, "MIXED", cpus=sizes.pool.cpus, real_memory=sizes.pool.memory_mib)
    for state, count in (("PENDING", sizes.waiting), ("COMPLETED", sizes.ended)):
        for _ in range(count):
            ground.slurm.add_job(state, comment="", user="alice")

    async def make(number: int, body: dict[str, object]) -> None:
        node = nodes[number % len(nodes)]
        job = JobId(ground.slurm.add_job("RUNNING", comment="", nodes=node))
        metadata, spec = body["metadata"], body["spec"]
        assert isinstance(metadata, dict)
        assert isinstance(spec, dict)
        metadata["annotations"] = {names.ANNOTATION_JOB_ID: str(job), names.ANNOTATION_PLACED_ON: node}
        made = json.loads(await ground.kube.create(paths.pods(WORKLOADS), body | {"spec": spec | {"nodeName": node}}))
        gang = GangId(namespace=WORKLOADS, name=metadata["name"], uid=made["metadata"]["uid"])
        ground.slurm.jobs[job]["comment"] = gang.comment()
        ground.jobs[node].append((metadata["name"], job))

    bodies = enumerate(Wave(name="bound", count=sizes.bound).bodies)
    await in_flight(AT_ONCE, (partial(make, number, body) for number, body in bodies))


async def _take_over(ground: Ground, sizes: Sizes, scheduler: Scheduler, lease: KubeLease) -> list[report.Figure]:
    calling = sizes.pool.nodes[: sizes.calling]
    tokens = {node: await token_of(ground.kube, node) for node in calling}
    pods = Pods(ground.kube)
    async with pods.watched():
        try:
            before = await scheduler.spent()
            began_s = scheduler.counts_from_s = time.monotonic()
            await lease.write(holder="", duration_s=1, previous=await lease.read())
            new = Wave(name="new", count=1)
            await pods.create(new.bodies)
            answered = await asyncio.gather(*(_answered(scheduler, ground, node, tokens[node]) for node in calling))
            to_answer = (await scheduler.spent()).since(before)
            told = await asyncio.gather(*(_told(scheduler, ground, pods, node, tokens[node]) for node in calling))
            async with asyncio.timeout(PATIENCE_S):
                while not ground.slurm.submissions:
                    await ground.slurm.changes.wait()
            submitted_s = time.monotonic()
            spent = (await scheduler.spent()).since(before)
            peak_mib = status_mib(scheduler.process.pid, "VmHWM")
            asked = sum(1 for text in ground.slurm.asked if text.startswith("job "))
        finally:
            holds = await scheduler.stop()
    turn = report.longest_turn(holds, bound_s=_HELD_S, of="the event loop")
    what, kept = f"{sizes.bound} bound pods, {sizes.jobs} jobs (double)", "the watch of pods"
    answered_s, n = max(answered) - began_s, len(answered)
    answer = f"{what}: until hooks are answered, since the lease was given back"
    return [
        report.at_most(answer, answered_s, bound=_ANSWERED_S, n=n),
        report.observed(f"{what}: eviction told after the epilog's call, longest", max(told), n=len(told)),
        report.observed(f"{what}: until a new pod is submitted", submitted_s - began_s),
        report.observed(f"{what}: processor time until hooks are answered", to_answer.cpu_s),
        report.observed(f"{what}: processor time until a new pod is submitted", spent.cpu_s),
        report.observed(f"{what}: jobs read one by one", asked, unit="requests"),
        report.at_most(f"{what}: most memory", peak_mib, unit="MiB", bound=_RSS_MIB, limited_by=kept),
        msgspec.structs.replace(turn, figure=f"{what}: {turn.figure}"),
    ]


async def _answered(scheduler: Scheduler, ground: Ground, node: str, token: str) -> float:
    """Call the Prolog of a running job until the scheduler lets it end. Return when that was (monotonic)."""
    (_, job), *_ = ground.jobs[node]
    while not await _says_done(scheduler, "prolog", job, node, token):  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_S)
    return time.monotonic()


async def _told(scheduler: Scheduler, ground: Ground, pods: Pods, node: str, token: str) -> float:
    """Preempt another pod's job on this node. Return the seconds until the pod is evicted."""
    _, (pod, job), *_ = ground.jobs[node]
    ground.slurm.set_job(job, "PREEMPTED", "COMPLETING", nodes=node)
    began_s = time.monotonic()
    async with beside(_says_done(scheduler, "epilog", job, node, token)):
        await pods.until(lambda: pod in pods.told_s, what=f"pod {pod} is told to go")
    return max(pods.told_s[pod] - began_s, 0.0)


async def _says_done(scheduler: Scheduler, hook: str, job: JobId, node: str, token: str) -> bool:
    with contextlib.suppress(aiohttp.ClientError):
        return await scheduler.call(hook, job, node, token=token) == 200
    return False

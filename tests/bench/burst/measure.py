"""Many pods at once, compared with the same jobs submitted directly to slurmrestd, on simulated nodes.

No Prolog runs there, so a pod is bound when the scheduler's poll shows that its job runs. The bench itself makes the
calls of Epilogs, over HTTP with the token of the node's slurmd pod, as the hook script does.

slurmctld looks at batch jobs once a second. So short measurements begin at random moments of that second, are repeated
in turns for pods and for jobs, and their medians count.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial

import msgspec

from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.slurm import Slurm
from tests.bench import census, report
from tests.bench.asked import Asked
from tests.bench.burst import load
from tests.bench.burst.load import Pods, Wave
from tests.bench.census import Spent
from tests.bench.ground import BINDER, PATIENCE_S, ControlPlane, beside, control_plane, slurm_of
from tests.bench.holds import Hold
from tests.bench.ours import Scheduler, scheduling
from tests.bench.simulated import Pool, furnish, token_of
from tests.polling import until

_SHARE = 1 / 0.8
_HELD_S = 0.05
_TOLD_S = 0.5
_ADDED_S = 0.3
_PREEMPTIONS_EACH_S = 0.2
_LOOK_S = 0.02
_NODE_EVENTS_EACH_S = 1.0
_DEFAULT_NAME = "default-scheduler"

LARGE = Pool(name="large", size=6, cpus=160)
MANY = Pool(name="many", size=500)
VICTIMS = Pool(name="victims", size=64)


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    singles: int = 100
    rounds: int = 5
    old_jobs: tuple[int, ...] = (0, 300, 3_000)
    gangs: int = 100
    members: int = 8
    large: int = 256
    many: int = 2_000
    nodes: int = 500
    unschedulable: int = 10_000
    good: int = 15
    victims: int = 24
    at_once: int = 64
    queued: int = 50


QUICK = Sizes(
    singles=30, rounds=3, old_jobs=(0, 60), gangs=10, large=32, many=200, nodes=60, unschedulable=500, good=4,
    victims=6, at_once=12, queued=10,
)  # fmt: skip
"""The sizes for a run of three minutes."""


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a wave: the seconds until all pods or jobs had nodes, and what each program used meanwhile."""

    took_s: float
    cpu_s: Mapping[str, float]
    in_words: str

    def each(self, count: int) -> str:
        """Return each program's processor time per pod, in milliseconds, in words."""
        most = sorted(self.cpu_s.items(), key=lambda item: -item[1])
        return ", ".join(f"{name} {1000 * used_s / count:.1f}" for name, used_s in most if used_s > 0)


class Took(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of one wave: by pods, by plain jobs, and the scheduler's requests to Slurm."""

    ours: Used
    plain: Used
    spent: Spent

    @staticmethod
    def median(rounds: Sequence[Took]) -> Took:
        """Return the median of an odd number of rounds, for pods and for plain jobs separately."""
        middle = len(rounds) // 2
        ours = sorted(rounds, key=lambda each: each.ours.took_s)[middle]
        plain = sorted(rounds, key=lambda each: each.plain.took_s)[middle]
        return Took(ours=ours.ours, plain=plain.plain, spent=ours.spent)


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """The clients of Kubernetes and Slurm, and the scheduler, of one round."""

    kube: Kube
    slurm: Slurm
    scheduler: Scheduler
    pods: Pods
    pids: Callable[[], Mapping[str, int]]

    async def used(self, work: Callable[[], Awaitable[float]]) -> Used:
        """Run `work`, which returns its seconds, and return them with the processor time of each program."""
        before = census.take(self.pids())
        took_s = await work()
        after = census.take(self.pids())
        cpu_s = {name: used_s - before.cpu_s.get(name, 0.0) for name, used_s in after.cpu_s.items()}
        return Used(took_s=took_s, cpu_s=cpu_s, in_words=after.busiest_since(before))

    async def clear(self, prefix: str) -> None:
        """Remove all pods whose name begins with `prefix`, and end all jobs."""
        await self.pods.remove(prefix)
        await load.end_all(self.slurm)


class Bench:
    """All rounds on one control plane; each round has a Slurm and a scheduler of its own."""

    def __init__(self, plane: ControlPlane, sizes: Sizes) -> None:
        self._plane = plane
        self._sizes = sizes
        self._rounds = 0
        self._holds: list[Hold] = []
        self._many = msgspec.structs.replace(MANY, size=sizes.nodes)
        self._moments = random.Random(sizes.many)

    async def run(self) -> list[report.Figure]:
        async with await Kube.connect(self._plane.admin) as kube:
            await furnish(kube, [LARGE, self._many, VICTIMS])
            figures = []
            for old in self._sizes.old_jobs:
                figures += await self._singles(kube, old)
            figures += await self._at_once(kube)
            figures += await self._evictions(kube)
            return [*figures, report.longest_turn(self._holds, bound_s=_HELD_S)]

    @contextlib.asynccontextmanager
    async def _ground(self, kube: Kube, pools: Sequence[Pool], *, old_jobs: int = 0) -> AsyncIterator[Ground]:
        self._rounds += 1
        folder, kubeconfig, pods = self._plane.folder / f"round-{self._rounds}", self._plane.admin, Pods(kube)
        conf, count = "".join(pool.conf for pool in pools), sum(pool.size for pool in pools)
        async with slurm_of(folder / "slurm", conf, count=count) as running:
            old = JobSpec(name="old", script="#!/bin/sh\n", comment="plain", hold=True)
            await load.submit_plain(running.slurm, [old] * old_jobs)
            await load.end_all(running.slurm)
            async with (
                scheduling(folder / "scheduler", kubeconfig, running.settings, holds=self._holds) as scheduler,
                pods.watched(),
            ):
                own = {"scheduler": scheduler.process.pid}
                pids = partial(self._plane.pids, own, slurm=running.real.pid)
                yield Ground(kube=kube, slurm=running.slurm, scheduler=scheduler, pods=pods, pids=pids)
                await pods.remove("")

    # ------------------------------------------------------------- the rounds

    async def _singles(self, kube: Kube, old_jobs: int) -> list[report.Figure]:
        count = self._sizes.singles
        figures = []
        async with self._ground(kube, [LARGE], old_jobs=old_jobs) as ground:
            for what, wave in (
                ("pods", Wave(name="single", count=count)),
                ("pods of services", Wave(name="service", count=count, is_service=True)),
            ):
                took = await self._waves(ground, wave)
                figures += _rates(f"{count} {what} at once, {old_jobs} old jobs", wave, took)
        return figures

    async def _waves(self, ground: Ground, wave: Wave) -> Took:
        return Took.median([await _wave(ground, wave, self._moments) for _ in range(self._sizes.rounds)])

    async def _at_once(self, kube: Kube) -> list[report.Figure]:
        sizes = self._sizes
        gangs = Wave(name="gang", count=sizes.gangs * sizes.members, gang=sizes.members)
        many = Wave(name="many", count=sizes.many)
        async with self._ground(kube, [self._many]) as ground:
            figures = _rates(f"{sizes.gangs} gangs of {sizes.members} at once", gangs, await self._waves(ground, gangs))
            figures += await _large_gang(ground, sizes.large)
            took = await _wave(ground, many, self._moments)
            figures += _rates(f"{many.count} pods at once, {self._many.size} nodes", many, took)
            figures += _costs(many, took.spent)
            figures.append(await self._default_scheduler(ground, many, took.ours))
            figures += await _unschedulable(ground, sizes, self._many.nodes[0])
        return figures

    async def _default_scheduler(self, ground: Ground, wave: Wave, ours: Used) -> report.Figure:
        """Time the same pods with kube-scheduler, without Slurm, and with a limit on requests that it never reaches."""
        self._plane.start_binder()
        try:
            await _until_bound(ground, Wave(name="awake", count=1, scheduler=_DEFAULT_NAME))
            await ground.clear("awake")
            theirs = await _until_bound(ground, msgspec.structs.replace(wave, scheduler=_DEFAULT_NAME))
            await ground.clear(wave.name)
        finally:
            self._plane.end(BINDER)
        name = f"the same pods by the default kube-scheduler, 1,000 requests/s ({theirs.each(wave.count)} ms/pod)"
        peer = report.against(name, theirs.took_s, ours=ours.took_s)
        what = f"{wave.count} pods at once, {self._many.size} nodes: made and bound ({ours.each(wave.count)} ms/pod)"
        return report.observed(what, ours.took_s, n=wave.count, peer=peer)

    async def _evictions(self, kube: Kube) -> list[report.Figure]:
        sizes = self._sizes
        victims = msgspec.structs.replace(VICTIMS, size=max(sizes.victims, sizes.at_once))
        async with self._ground(kube, [self._many, victims]) as ground:
            return [
                *await _evictions_during(ground, victims.nodes[: sizes.victims], sizes.many),
                *await _evictions_at_once(ground, victims.nodes[: sizes.at_once], sizes.queued),
            ]


def measure(asked: Asked) -> list[report.Figure]:
    with control_plane("burst") as plane:
        return asyncio.run(Bench(plane, QUICK if asked.quick else Sizes()).run())


# ------------------------------------------------------------------ one wave


async def _wave(ground: Ground, wave: Wave, moments: random.Random) -> Took:
    """Time the pods of a wave, then the same jobs without the scheduler."""
    await asyncio.sleep(moments.random())
    before = await ground.scheduler.spent()
    ours = await _until_bound(ground, wave)
    spent = (await ground.scheduler.spent()).since(before)
    await ground.clear(wave.name)
    await asyncio.sleep(moments.random())
    plain = await ground.used(lambda: _plain(ground.slurm, wave))
    await load.end_all(ground.slurm)
    return Took(ours=ours, plain=plain, spent=spent)


async def _until_bound(ground: Ground, wave: Wave) -> Used:
    """Time a wave from the first request until the last pod is bound."""

    async def work() -> float:
        began_s = time.monotonic()
        await _create(ground, wave)
        return max(ground.pods.bound_s.values()) - began_s

    return await ground.used(work)


async def _create(ground: Ground, wave: Wave) -> None:
    await ground.pods.create(wave.bodies)
    await ground.pods.until_bound(wave.names)


async def _plain(slurm: Slurm, wave: Wave) -> float:
    began_s = time.monotonic()
    ids = await load.submit_plain(slurm, wave.jobs, at_once=wave.is_service)
    await load.all_run(slurm, ids)
    return time.monotonic() - began_s


def _rates(what: str, wave: Wave, took: Took) -> list[report.Figure]:
    jobs, ours_s, plain_s = wave.count // wave.gang, took.ours.took_s, took.plain.took_s
    same = "allocations" if wave.is_service else "jobs"
    peer = report.against(f"the same {same} by plain REST, 10 in flight, s", plain_s, ours=ours_s)
    why = f"{took.ours.in_words}; ms/pod: {took.ours.each(wave.count)}"
    bound = round(_SHARE * plain_s, 3)
    return [
        report.at_most(f"{what}: until all are bound", ours_s, bound=bound, n=jobs, peer=peer, limited_by=why),
        report.observed(f"{what}: rate", wave.count / ours_s, unit="pods/s", n=jobs),
        report.observed(f"{what}: processor time", 1000 * took.spent.cpu_s / wave.count, unit="ms/pod", n=wave.count),
    ]


def _costs(wave: Wave, spent: Spent) -> list[report.Figure]:
    n = wave.count
    return [
        report.at_most("REST requests per pod", spent.calls.total() / n, unit="requests", bound=2, n=n),
        report.at_most("REST bytes per pod", spent.size / n / 1000, unit="kB", bound=10, n=n),
        *(
            report.observed(f"requests of {endpoint} per pod", calls / n, unit="requests", n=n)
            for endpoint, calls in sorted(spent.calls.items())
        ),
    ]


# ------------------------------------------------- pods that no node can take


async def _unschedulable(ground: Ground, sizes: Sizes, node: str) -> list[report.Figure]:
    """Time single good pods while pods that fit nowhere come, while they wait, and while a Node changes each second."""
    alone_s = report.median(await _good_pods(ground, sizes.good, "alone"))
    wave = Wave(name="never", count=sizes.unschedulable, pool="nowhere")
    began_s = time.monotonic()
    coming = asyncio.create_task(ground.pods.create(wave.bodies))
    took_s = {"coming": await _good_pods(ground, sizes.good, "amid")}
    await coming
    await ground.pods.until(lambda: len(ground.pods.waits) >= wave.count, what="all pods were told that they wait")
    told_s = time.monotonic() - began_s
    took_s["waiting"] = await _good_pods(ground, sizes.good, "quiet")
    async with beside(_change(ground.kube, node)):
        took_s["waiting, a Node changes each second"] = await _good_pods(ground, sizes.good, "busy")
    await ground.clear(wave.name)
    figures = [report.observed(f"{wave.count} unschedulable pods: until all were told", told_s, n=wave.count)]
    for how, times in took_s.items():
        what, value = f"good pod bound, {wave.count} unschedulable {how}: median", report.median(times)
        peer = report.against(f"without the {wave.count}", alone_s, ours=value)
        bound = round(alone_s + _ADDED_S, 4)
        figures.append(report.at_most(what, value, bound=bound, n=len(times), peer=peer))
    return figures


async def _good_pods(ground: Ground, count: int, name: str) -> list[float]:
    return [await ground.pods.time_one(Wave(name=f"good-{name}-{number}", count=1)) for number in range(count)]


async def _change(kube: Kube, node: str) -> None:
    """Change a label of a Node each second, until cancelled."""
    while True:
        for value in ("a", "b"):
            await kube.patch(paths.node(node), {"metadata": {"labels": {"node.example.com/flips": value}}})
            await asyncio.sleep(_NODE_EVENTS_EACH_S)


# ------------------------------------------------------------------ evictions


async def _large_gang(ground: Ground, size: int) -> list[report.Figure]:
    """Time a large gang until it is bound, and until all its pods are evicted after Slurm took one of its nodes."""
    wave = Wave(name="large", count=size, gang=size, cpus=MANY.cpus // 2)
    took_s = (await _until_bound(ground, wave)).took_s
    told_s = await _take_nodes(ground, wave.names[:1], told=wave.names)
    await ground.clear(wave.name)
    return [
        report.observed(f"one gang of {size}: until all are bound", took_s),
        report.observed(f"one gang of {size}: one node preempted until all were told", told_s),
    ]


async def _evictions_during(ground: Ground, nodes: Sequence[str], burst: int) -> list[report.Figure]:
    """Time preemptions one by one, on an idle cluster and while many pods are submitted."""

    async def preempt(pod: str, index: int) -> float:
        await asyncio.sleep(index * _PREEMPTIONS_EACH_S)
        return await _take_nodes(ground, [pod], told=[pod])

    victims = await _occupy(ground, nodes)
    third = len(nodes) // 3
    alone = await asyncio.gather(*(preempt(pod, index) for index, pod in enumerate(victims[:third])))
    wave = Wave(name="burst", count=burst, pool="many")
    coming = asyncio.create_task(ground.pods.create(wave.bodies))
    amid = await asyncio.gather(*(preempt(pod, index) for index, pod in enumerate(victims[third:])))
    bound = sum(name.startswith(wave.name) for name in ground.pods.bound_s)
    await coming
    await ground.clear("")
    what, n = "eviction told after the epilog's call", len(amid)
    longest = report.against("idle, longest", max(alone), ours=max(amid))
    at = f"{what}, while {burst} pods are submitted"
    return [
        report.observed(f"{what}, idle: median", report.median(alone), n=len(alone)),
        report.observed(f"{at}: median", report.median(amid), n=n),
        report.at_most(f"{at}: longest", max(amid), bound=_TOLD_S, n=n, peer=longest),
        report.observed(f"pods of the {burst} that were bound by the last eviction", bound, unit="pods", n=burst),
    ]


async def _evictions_at_once(ground: Ground, nodes: Sequence[str], queued: int) -> list[report.Figure]:
    """Time one job that preempts a pod on each of many nodes while other jobs are queued."""
    waiting = JobSpec(name="queued", script="#!/bin/sh\n", comment="plain", hold=True)
    await load.submit_plain(ground.slurm, [waiting] * queued)
    victims = await _occupy(ground, nodes)
    before = await ground.scheduler.spent()
    took_s = await _take_nodes(ground, victims, told=victims)
    calls_each = (await ground.scheduler.spent()).since(before).calls.total() / len(nodes)
    what, n = f"{len(nodes)} pods preempted by one job, {queued} jobs queued", len(nodes)
    return [
        report.at_most(f"{what}: until all were told", took_s, bound=_TOLD_S, n=n),
        report.observed(f"{what}: REST requests per pod", calls_each, unit="requests", n=n),
    ]


async def _occupy(ground: Ground, nodes: Sequence[str]) -> Sequence[str]:
    """Bind a pod to each of these nodes, which it fills. Return the pods' names."""
    wave = Wave(name="victim", count=len(nodes), cpus=VICTIMS.cpus, nodes=tuple(nodes))
    await _create(ground, wave)
    return wave.names


async def _take_nodes(ground: Ground, pods: Sequence[str], *, told: Sequence[str]) -> float:
    """Preempt pods with a job of a higher partition, and call the Epilogs of their nodes until the pods in `told` are
    evicted.

    Returns: the seconds from the first call of an Epilog to the last eviction; 0 if all evictions came before.
    """
    jobs = dict(map(ground.pods.node_and_job_of, pods))
    tokens = {node: await token_of(ground.kube, node) for node in jobs}
    n = len(jobs)
    preemptor = JobSpec(
        name="preemptor", script="#!/bin/sh\n", comment="plain", partition="high", required_nodes=tuple(jobs),
        minimum_nodes=n, maximum_nodes=n, tasks=n, cpus_per_task=VICTIMS.cpus, memory_mib_per_node=load.MEMORY_MIB,
    )  # fmt: skip
    await load.submit_plain(ground.slurm, [preemptor])

    async def are_ended() -> bool:
        known = await ground.slurm.jobs_state([*jobs.values()])
        return all("PREEMPTED" in known.get(job, frozenset()) for job in jobs.values())

    await until(are_ended, timeout_s=PATIENCE_S, what="Slurm has ended the jobs", every_s=_LOOK_S)
    began_s = time.monotonic()
    async with beside(*(_epilog(ground, job, node, tokens[node]) for node, job in jobs.items())):
        await ground.pods.until(lambda: {*told} <= ground.pods.told_s.keys(), what=f"{', '.join(told)} were told to go")
    return max(max(ground.pods.told_s[pod] for pod in told) - began_s, 0.0)


async def _epilog(ground: Ground, job: JobId, node: str, token: str) -> None:
    """Call the scheduler as a node's Epilog script does, until it lets the Epilog end."""
    while await ground.scheduler.call("epilog", job, node, token=token) != 200:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_S)

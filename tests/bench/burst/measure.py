"""Many pods at once, against the same jobs by plain REST in the same run, on simulated nodes.

No Prolog runs there, so a pod is bound when the scheduler's poll has shown that its job runs and where. An epilog is
called by the bench, over HTTP with the token of the node's slurmd pod, as the hook script does it.

slurmctld looks at batch jobs once a second. What takes about as long is begun at any moment of that second, several
times, ours and plain in turns, and the medians count.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.runtime.process import settle_garbage_collector
from sunkpy.slurm import Slurm
from tests.bench import census, holds, report
from tests.bench.burst import load
from tests.bench.burst.ground import Pool, furnish, slurm_of, token_of
from tests.bench.burst.load import Pods, Wave
from tests.bench.burst.scheduler import AUDIENCE, Scheduler, scheduling
from tests.bench.ground import BINDER, ControlPlane
from tests.bench.holds import Hold
from tests.bench.spent import Spent

MACHINE = "two shared cores run both sides, the bench and its simulated nodes"
_PATIENCE_S = 900.0
_SHARE = 1 / 0.8
_HELD_S = 0.05
_PREEMPTIONS_EACH_S = 0.2
_LOOK_S = 0.02
_NODE_EVENTS_EACH_S = 1.0
_DEFAULT_NAME = "default-scheduler"

LARGE = Pool(name="large", size=6, cpus=160)
MANY = Pool(name="many", size=500, cpus=8)
VICTIMS = Pool(name="victims", size=64, cpus=8)


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much of each."""

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
    singles=30,
    rounds=3,
    old_jobs=(0, 60),
    gangs=10,
    large=32,
    many=200,
    nodes=60,
    unschedulable=500,
    good=4,
    victims=6,
    at_once=12,
    queued=10,
)
"""The same within three minutes."""


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a wave: seconds until all had their nodes, and what each program used meanwhile."""

    took_s: float
    cpu_s: Mapping[str, float]
    in_words: str

    def each(self, count: int) -> str:
        """Milliseconds of processor time of each program for one pod."""
        most = sorted(self.cpu_s.items(), key=lambda item: -item[1])
        return ", ".join(f"{name} {1000 * used_s / count:.1f}" for name, used_s in most if used_s > 0)


class Took(msgspec.Struct, frozen=True, kw_only=True):
    """One wave, ours and plain, and what it cost the scheduler in requests to Slurm."""

    ours: Used
    plain: Used
    spent: Spent

    @staticmethod
    def median(rounds: Sequence[Took]) -> Took:
        """Of an odd number, each side by itself."""

        def middle(sides: list[Took], key: Callable[[Took], float]) -> Took:
            return sorted(sides, key=key)[len(sides) // 2]

        ours = middle([*rounds], lambda each: each.ours.took_s)
        return Took(ours=ours.ours, plain=middle([*rounds], lambda each: each.plain.took_s).plain, spent=ours.spent)


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides and the scheduler between them."""

    kube: Kube
    slurm: Slurm
    scheduler: Scheduler
    pods: Pods
    pids: Callable[[], Mapping[str, int]]

    @contextlib.contextmanager
    def census(self) -> Iterator[list[census.Census]]:
        """Two of them, when the block is over."""
        both = [census.take(self.pids())]
        yield both
        both.append(census.take(self.pids()))


class Bench:
    """One control plane for all rounds; each round has a Slurm and a scheduler of its own."""

    def __init__(self, folder: Path, sizes: Sizes) -> None:
        self._folder = folder
        self._sizes = sizes
        self._plane = ControlPlane(folder / "kubernetes")
        self._rounds = 0
        self._holds: list[Hold] = []
        self._many = msgspec.structs.replace(MANY, size=sizes.nodes)
        self._moments = random.Random(sizes.many)

    def stop(self) -> None:
        """End what is left."""
        self._plane.stop()

    async def run(self) -> list[report.Figure]:
        """All rounds."""
        async with await Kube.connect(self._plane.kubeconfig) as kube:
            await furnish(kube, [LARGE, self._many, VICTIMS])
            figures = []
            for old in self._sizes.old_jobs:
                figures += await self._singles(kube, old)
            figures += await self._at_once(kube)
            figures += await self._evictions(kube)
            return [*figures, self._longest_hold()]

    def _longest_hold(self) -> report.Figure:
        longest = holds.longest(self._holds)
        return report.at_most(
            "longest turn of the scheduler's event loop",
            longest.held_s,
            unit="s of processor time",
            bound=_HELD_S,
            n=len(self._holds),
            limited_by=longest.what,
        )

    @contextlib.asynccontextmanager
    async def _ground(self, kube: Kube, pools: Sequence[Pool], *, old_jobs: int = 0) -> AsyncIterator[Ground]:
        self._rounds += 1
        folder = self._folder / f"round-{self._rounds}"
        async with slurm_of(folder / "slurm", pools) as running:
            slurm, settings = running.slurm, running.settings
            await _make_old_jobs(slurm, old_jobs)
            pods = Pods(kube)
            async with (
                scheduling(folder / "scheduler", self._plane.kubeconfig, settings, holds=self._holds) as scheduler,
                pods.watched(),
            ):

                def pids() -> dict[str, int]:
                    plane = {name: process.pid for name, process in self._plane.processes.items()}
                    own = {"scheduler": scheduler.process.pid, "bench": os.getpid()}
                    return {**plane, **census.slurm_daemons_of(running.pid), **own}

                yield Ground(kube=kube, slurm=slurm, scheduler=scheduler, pods=pods, pids=pids)
                await pods.remove("", timeout_s=_PATIENCE_S)

    # ------------------------------------------------------------- the rounds

    async def _singles(self, kube: Kube, old_jobs: int) -> list[report.Figure]:
        waves = {
            "pods": Wave(name="single", count=self._sizes.singles),
            "pods of services": Wave(name="service", count=self._sizes.singles, is_service=True),
        }
        figures = []
        async with self._ground(kube, [LARGE], old_jobs=old_jobs) as ground:
            for what, wave in waves.items():
                took = await self._waves(ground, wave)
                figures += _rates(f"{wave.count} {what} at once, {old_jobs} old jobs", wave, took)
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
            figures += await self._default_scheduler(ground, many, took.ours)
            figures += await _unschedulable(ground, sizes, self._many.nodes[0])
        return [*figures]

    async def _default_scheduler(self, ground: Ground, wave: Wave, ours: Used) -> list[report.Figure]:
        """The same pods, made and bound without Slurm: no queue, no job, and no limit of its own requests in reach."""
        self._plane.start_binder()
        try:
            await _until_bound(ground, Wave(name="awake", count=1, scheduler=_DEFAULT_NAME))
            await ground.pods.remove("awake", timeout_s=_PATIENCE_S)
            theirs = await _until_bound(ground, msgspec.structs.replace(wave, scheduler=_DEFAULT_NAME))
            await ground.pods.remove(wave.name, timeout_s=_PATIENCE_S)
        finally:
            self._plane.end(BINDER)
        name = f"the same pods by the default kube-scheduler, 1,000 requests/s ({theirs.each(wave.count)} ms/pod)"
        peer = report.against(name, theirs.took_s, ours=ours.took_s)
        what = f"{wave.count} pods at once, {self._many.size} nodes: made and bound ({ours.each(wave.count)} ms/pod)"
        return [report.observed(what, ours.took_s, unit="s", n=wave.count, peer=peer)]

    async def _evictions(self, kube: Kube) -> list[report.Figure]:
        sizes = self._sizes
        victims = msgspec.structs.replace(VICTIMS, size=max(sizes.victims, sizes.at_once))
        async with self._ground(kube, [self._many, victims]) as ground:
            return [
                *await _evictions_during(ground, victims.nodes[: sizes.victims], sizes.many),
                *await _evictions_at_once(ground, victims.nodes[: sizes.at_once], sizes.queued),
            ]


def measure(*, quick: bool) -> list[report.Figure]:
    """In a folder of its own, which is gone afterwards."""
    settle_garbage_collector()
    with tempfile.TemporaryDirectory(prefix="sunkpy-burst-") as folder:
        bench = Bench(Path(folder), QUICK if quick else Sizes())
        try:
            return asyncio.run(bench.run())
        finally:
            bench.stop()


# ------------------------------------------------------------------ one wave


async def _wave(ground: Ground, wave: Wave, moments: random.Random) -> Took:
    """First the pods, then the same jobs without us."""
    await asyncio.sleep(moments.random())
    before = await ground.scheduler.spent()
    ours = await _until_bound(ground, wave)
    spent = (await ground.scheduler.spent()).since(before)
    await ground.pods.remove(wave.name, timeout_s=_PATIENCE_S)
    await load.end_all(ground.slurm, timeout_s=_PATIENCE_S)
    await asyncio.sleep(moments.random())
    return Took(ours=ours, plain=await _plain(ground, wave), spent=spent)


async def _until_bound(ground: Ground, wave: Wave) -> Used:
    """From the first that is made until the last is bound."""
    with ground.census() as both:
        began_s = time.monotonic()
        await ground.pods.create(wave.bodies)
        await _bound(ground.pods, wave)
    return _used(max(ground.pods.bound_s.values()) - began_s, *both)


def _used(took_s: float, before: census.Census, after: census.Census) -> Used:
    cpu_s = {name: used_s - before.cpu_s.get(name, 0.0) for name, used_s in after.cpu_s.items()}
    return Used(took_s=took_s, cpu_s=cpu_s, in_words=after.busiest_since(before, cores=os.cpu_count() or 1))


async def _bound(pods: Pods, wave: Wave) -> None:
    names = {body["metadata"]["name"] for body in wave.bodies}  # type: ignore[index]
    await pods.until(
        lambda: names <= pods.bound_s.keys(), what=f"all {wave.count} pods {wave.name} are bound", timeout_s=_PATIENCE_S
    )


async def _plain(ground: Ground, wave: Wave) -> Used:
    with ground.census() as both:
        began_s = time.monotonic()
        ids = await load.submit_plain(ground.slurm, wave.jobs, at_once=wave.is_service)
        await load.all_run(ground.slurm, ids, timeout_s=_PATIENCE_S)
        took_s = time.monotonic() - began_s
    await load.end_all(ground.slurm, timeout_s=_PATIENCE_S)
    return _used(took_s, *both)


async def _make_old_jobs(slurm: Slurm, count: int) -> None:
    job = JobSpec(name="old", script="#!/bin/sh\n", comment="plain", hold=True)
    await load.submit_plain(slurm, [job] * count)
    await load.end_all(slurm, timeout_s=_PATIENCE_S)


def _rates(what: str, wave: Wave, took: Took) -> list[report.Figure]:
    jobs = wave.count // wave.gang
    same = "allocations" if wave.is_service else "jobs"
    peer = report.against(f"the same {same} by plain REST, 10 in flight, s", took.plain.took_s, ours=took.ours.took_s)
    return [
        report.at_most(
            f"{what}: until all are bound",
            took.ours.took_s,
            unit="s",
            bound=round(_SHARE * took.plain.took_s, 3),
            n=jobs,
            peer=peer,
            limited_by=f"{took.ours.in_words}; ms/pod: {took.ours.each(wave.count)}",
        ),
        report.observed(f"{what}: rate", wave.count / took.ours.took_s, unit="pods/s", n=jobs),
        report.observed(f"{what}: processor time", 1000 * took.spent.cpu_s / wave.count, unit="ms/pod", n=wave.count),
    ]


def _costs(wave: Wave, spent: Spent) -> list[report.Figure]:
    n = wave.count
    each = [
        report.observed(f"requests of {endpoint} per pod", calls / n, unit="requests", n=n)
        for endpoint, calls in sorted(spent.calls.items())
    ]
    return [
        report.at_most("REST requests per pod", spent.calls.total() / n, unit="requests", bound=2, n=n),
        report.at_most("REST bytes per pod", spent.size / n / 1000, unit="kB", bound=10, n=n),
        *each,
    ]


# ------------------------------------------------------------- one large gang


async def _large_gang(ground: Ground, size: int) -> list[report.Figure]:
    """It is bound whole, and goes whole when Slurm takes one of its nodes."""
    wave = Wave(name="large", count=size, gang=size, cpus=MANY.cpus // 2)
    took_s = (await _until_bound(ground, wave)).took_s
    one = ground.pods.get("large-0")
    assert one is not None
    job, node = ground.pods.job_of(one.name), one.spec.node_name
    token = await token_of(ground.kube, node, audience=AUDIENCE)
    ended_s = await _take_node(
        ground, job, node, token, until=lambda: len(ground.pods.told_s) >= size, what=f"all {size} were told to go"
    )
    told_s = max(ground.pods.told_s.values()) - ended_s
    await ground.pods.remove(wave.name, timeout_s=_PATIENCE_S)
    await load.end_all(ground.slurm, timeout_s=_PATIENCE_S)
    return [
        report.observed(f"one gang of {size}: until all are bound", took_s, unit="s", n=1),
        report.observed(f"one gang of {size}: one node preempted until all were told", told_s, unit="s", n=1),
    ]


# ------------------------------------------------- pods that no node can take


async def _unschedulable(ground: Ground, sizes: Sizes, node: str) -> list[report.Figure]:
    """A good pod among many that wait in vain, while they come, when all is quiet, and after each change of a Node."""
    alone = await _good_pods(ground, sizes.good, "alone")
    wave = Wave(name="never", count=sizes.unschedulable, pool="nowhere")
    began_s = time.monotonic()
    coming = asyncio.create_task(ground.pods.create(wave.bodies))
    amid = await _good_pods(ground, sizes.good, "amid")
    await coming
    await ground.pods.until(
        lambda: len(ground.pods.waits) >= wave.count, what="all pods were told that they wait", timeout_s=_PATIENCE_S
    )
    told_s = time.monotonic() - began_s
    quiet = await _good_pods(ground, sizes.good, "quiet")
    changing = asyncio.create_task(_change(ground.kube, node))
    busy = await _good_pods(ground, sizes.good, "busy")
    changing.cancel()
    await asyncio.gather(changing, return_exceptions=True)
    await ground.pods.remove(wave.name, timeout_s=_PATIENCE_S)
    peer = f"without the {wave.count}"
    return [
        report.observed(f"{wave.count} unschedulable pods: until all were told", told_s, unit="s", n=wave.count),
        *(
            report.at_most(
                f"good pod bound, {wave.count} unschedulable {how}: median",
                report.median(times),
                unit="s",
                bound=round(report.median(alone) + 0.3, 4),
                n=len(times),
                peer=report.against(peer, report.median(alone), ours=report.median(times)),
                limited_by=MACHINE,
            )
            for how, times in [("coming", amid), ("waiting", quiet), ("waiting, a Node changes each second", busy)]
        ),
    ]


async def _good_pods(ground: Ground, count: int, name: str) -> list[float]:
    """Created one after the other: seconds until each was bound."""
    took = []
    for number in range(count):
        wave = Wave(name=f"good-{name}-{number}", count=1)
        await ground.pods.create(wave.bodies)
        await _bound(ground.pods, wave)
        pod = f"{wave.name}-0"
        took.append(ground.pods.bound_s[pod] - ground.pods.created_s[pod])
        await ground.pods.remove(wave.name, timeout_s=_PATIENCE_S)
    return took


async def _change(kube: Kube, node: str) -> None:
    """A label of a Node comes and goes."""
    while True:
        for value in ("a", "b"):
            await kube.patch(paths.node(node), {"metadata": {"labels": {"node.example.com/flips": value}}})
            await asyncio.sleep(_NODE_EVENTS_EACH_S)


# ------------------------------------------------------------------ evictions


async def _evictions_during(ground: Ground, nodes: Sequence[str], burst: int) -> list[report.Figure]:
    """Jobs are preempted one by one, on an idle cluster and while many pods are submitted."""
    await _occupy(ground, nodes)
    idle, busy = nodes[: len(nodes) // 3], nodes[len(nodes) // 3 :]
    alone = await asyncio.gather(*(_preempt(ground, node, index) for index, node in enumerate(idle)))
    wave = Wave(name="burst", count=burst, pool="many")
    coming = asyncio.create_task(ground.pods.create(wave.bodies))
    amid = await asyncio.gather(*(_preempt(ground, node, index) for index, node in enumerate(busy)))
    bound = len([name for name in ground.pods.bound_s if name.startswith(wave.name)])
    await coming
    await ground.pods.remove("", timeout_s=_PATIENCE_S)
    await load.end_all(ground.slurm, timeout_s=_PATIENCE_S)
    at = f"while {burst} pods are submitted"
    return [
        report.observed(
            "eviction told after the epilog's call, idle: median", report.median(alone), unit="s", n=len(alone)
        ),
        report.observed(
            f"eviction told after the epilog's call, {at}: median", report.median(amid), unit="s", n=len(amid)
        ),
        report.at_most(
            f"eviction told after the epilog's call, {at}: longest",
            max(amid),
            unit="s",
            bound=0.5,
            n=len(amid),
            peer=report.against("idle, longest", max(alone), ours=max(amid)),
            limited_by=MACHINE,
        ),
        report.observed(f"pods of the {burst} that were bound by the last eviction", bound, unit="pods", n=burst),
    ]


async def _evictions_at_once(ground: Ground, nodes: Sequence[str], queued: int) -> list[report.Figure]:
    """One job preempts a pod on each of many nodes while others wait in the queue."""
    waiting = JobSpec(name="queued", script="#!/bin/sh\n", comment="plain", hold=True)
    await load.submit_plain(ground.slurm, [waiting] * queued)
    await _occupy(ground, nodes)
    jobs = {node: ground.pods.job_of(_victim(node)) for node in nodes}
    tokens = {node: await token_of(ground.kube, node, audience=AUDIENCE) for node in nodes}
    before = await ground.scheduler.spent()
    await load.submit_plain(ground.slurm, [_preemptor(nodes)])
    await _ended(ground.slurm, list(jobs.values()))
    began_s = time.monotonic()
    calls = [_epilog(ground, jobs[node], node, tokens[node]) for node in nodes]
    tasks = [asyncio.create_task(call) for call in calls]
    victims = [_victim(node) for node in nodes]
    await ground.pods.until(
        lambda: all(name in ground.pods.told_s for name in victims), what="all victims were told", timeout_s=_PATIENCE_S
    )
    took_s = max(max(ground.pods.told_s[name] for name in victims) - began_s, 0.0)
    calls_each = (await ground.scheduler.spent()).since(before).calls.total() / len(nodes)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    what = f"{len(nodes)} pods preempted by one job, {queued} jobs queued"
    return [
        report.at_most(f"{what}: until all were told", took_s, unit="s", bound=0.5, n=len(nodes), limited_by=MACHINE),
        report.observed(f"{what}: REST requests per pod", calls_each, unit="requests", n=len(nodes)),
    ]


async def _occupy(ground: Ground, nodes: Sequence[str]) -> None:
    """A pod on each of these nodes, which it fills."""
    bodies = []
    for node in nodes:
        (body,) = Wave(name="victim", count=1, cpus=VICTIMS.cpus).bodies
        spec = body["spec"]
        assert isinstance(spec, dict)
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        bodies.append({**body, "metadata": {"name": _victim(node), "labels": {"app": "victim"}}})
    await ground.pods.create(bodies)
    await ground.pods.until(
        lambda: all(_victim(node) in ground.pods.bound_s for node in nodes),
        what="the victims are bound",
        timeout_s=_PATIENCE_S,
    )


def _victim(node: str) -> str:
    return f"victim-{node}"


def _preemptor(nodes: Sequence[str]) -> JobSpec:
    return JobSpec(
        name="preemptor",
        script="#!/bin/sh\n",
        comment="plain",
        partition="high",
        required_nodes=tuple(nodes),
        minimum_nodes=len(nodes),
        maximum_nodes=len(nodes),
        tasks=len(nodes),
        cpus_per_task=VICTIMS.cpus,
        memory_mib_per_node=load.MEMORY_MIB,
    )


async def _preempt(ground: Ground, node: str, index: int) -> float:
    """A job takes the node: seconds from the epilog's call until the pod there was told, 0 if that was before."""
    job, token = ground.pods.job_of(_victim(node)), await token_of(ground.kube, node, audience=AUDIENCE)
    await asyncio.sleep(index * _PREEMPTIONS_EACH_S)
    victim = _victim(node)
    began_s = await _take_node(
        ground, job, node, token, until=lambda: victim in ground.pods.told_s, what=f"{victim} was told to go"
    )
    return max(ground.pods.told_s[victim] - began_s, 0.0)


async def _take_node(
    ground: Ground, job: JobId, node: str, token: str, *, until: Callable[[], bool], what: str
) -> float:
    """A job of a higher partition takes the node from this one, whose epilog asks there until something is so.

    Returns: when the epilog began to ask (monotonic).
    """
    await load.submit_plain(ground.slurm, [_preemptor([node])])
    await _ended(ground.slurm, [job])
    began_s = time.monotonic()
    asking = asyncio.create_task(_epilog(ground, job, node, token))
    await ground.pods.until(until, what=what, timeout_s=_PATIENCE_S)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    return began_s


async def _ended(slurm: Slurm, jobs: Sequence[JobId]) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            known = await slurm.jobs_state(jobs)
            if all("PREEMPTED" in known.get(job, frozenset()) for job in jobs):
                return
            await asyncio.sleep(_LOOK_S)


async def _epilog(ground: Ground, job: JobId, node: str, token: str) -> None:
    """Ask until it may end, as the script of a node does."""
    while await ground.scheduler.call("epilog", job, node, token=token) != 200:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_S)

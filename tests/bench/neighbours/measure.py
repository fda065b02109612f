"""One good pod in a cluster full of other users' objects, compared with the same pod in the empty cluster.

The good pods are services, one after another: their allocations start at once, so slurmctld's queue adds no time.
Nothing of the crowd concerns them, so it should not slow them down. Amid the crowd, this scheduler and kube-scheduler
each bind equal pods, one after the other. Memory is measured while pods come and go; this scheduler binds half of them,
and another one the rest.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.slurm import Slurm
from tests.bench import census, report
from tests.bench.asked import Asked
from tests.bench.burst.load import Pods, Wave, end_all
from tests.bench.ground import BINDER, ControlPlane, control_plane, make_if_missing, slurm_of
from tests.bench.holds import Hold, longest
from tests.bench.neighbours.crowd import DISK_GIB, NAMESPACE, OTHERS, Crowd
from tests.bench.ours import Scheduler, scheduling
from tests.bench.simulated import Pool, furnish

T = TypeVar("T")

_HELD_S = 0.05
_TIMES_AS_LONG = 2.0
_OWN_MS = 2.7
"""The most milliseconds of processor time that the scheduler may use for one pod, until it is bound."""
_GROWTH = 1.1
_KEPT = "what is kept"
_READ_MIB = 48.0
"""The memory in MiB for reading objects of a megabyte, however many there are."""
_REST_S = 10.0
_SHORT_OF_JOBS = "MinJobAge=30\n"
"""A line of slurm.conf, as on a site with many jobs: each poll of the bench reads the states of all."""


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How many objects of each kind there are. `gone`: pods that come and go in `rounds` while memory is measured."""

    nodes: int = 1_000
    jobs: int = 5_000
    kinds: int = 25
    waiting: int = 300
    foreign_each_s: float = 500.0
    foreign_for_s: float = 10.0
    submitted: int = 2_000
    huge: int = 60
    good: int = 25
    gone: int = 100_000
    rounds: int = 50


QUICK = Sizes(nodes=250, jobs=300, foreign_for_s=6.0, submitted=400, huge=15, good=8, gone=2_000, rounds=8)
"""The sizes for a run of five minutes."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the bench: what was going on, from when until when (monotonic), and how busy the machine was."""

    name: str
    began_s: float
    ended_s: float
    in_words: str


class Bench:
    """One Slurm and one scheduler, first alone and then with the crowd."""

    def __init__(
        self, plane: ControlPlane, slurm: Slurm, scheduler: Scheduler, crowd: Crowd, pods: Pods, sizes: Sizes
    ) -> None:
        self._plane = plane
        self._slurm = slurm
        self._scheduler = scheduler
        self._crowd = crowd
        self._pods = pods
        self._sizes = sizes
        self._parts: list[Part] = []
        self._pids = partial(plane.pids, {"scheduler": scheduler.process.pid})

    async def run(self) -> list[report.Figure]:
        sizes, crowd = self._sizes, self._crowd
        alone = await self._part("the good pod is alone", self._good("alone", sizes.good))
        await self._part("the crowd comes", crowd.settle(jobs=sizes.jobs, kinds=sizes.kinds, waiting=sizes.waiting))
        share = await self._part("the crowd rests", self._share_at_rest())
        figures = [
            *_observed("good pod bound, alone", alone),
            report.observed("scheduler at rest", share, unit="cores"),
        ]
        took = await self._part("the crowd rests", self._good("amid", sizes.good))
        figures += self._against(alone, "the crowd rests", took)
        came = asyncio.create_task(crowd.arrive("foreign", each_s=sizes.foreign_each_s, for_s=sizes.foreign_for_s))
        took = await self._part("pods of others come", self._good_until(came, "storm"))
        what = f"{sizes.foreign_each_s:g} pods of others a second for {sizes.foreign_for_s:g} s"
        figures += [report.observed(f"{what}: came", await came, unit="pods/s"), *self._against(alone, what, took)]
        await self._part("pods of others go", crowd.leave("foreign"))
        done = asyncio.create_task(crowd.submit("burst", sizes.submitted))
        took = await self._part("another namespace submits", self._good_until(done, "burst"))
        what = f"another namespace submits {sizes.submitted}"
        figures += [report.observed(f"{what}: until all are bound", await done), *self._against(alone, what, took)]
        await self._part("those of another namespace go", crowd.leave("burst"))
        figures += await self._against_binder()
        figures += await self._amid_huge(alone)
        return [*figures, *await self._part("pods come and go", self._memory())]

    async def _against_binder(self) -> list[report.Figure]:
        """Time pods that come at once, and then the same pods with kube-scheduler, without Slurm, without a limit."""
        count, crowd = self._sizes.submitted, self._crowd
        await end_all(self._slurm)
        before = await self._scheduler.spent()
        ours_s = await self._part(f"{count} pods come at once", crowd.submit("ours", count))
        own_ms = 1000 * (await self._scheduler.spent()).since(before).cpu_s / count
        why = self._parts[-1].in_words
        await self._part("these pods go", crowd.leave("ours"))
        await end_all(self._slurm)
        self._plane.start_binder()
        try:
            await crowd.submit("awake", 1, scheduler=OTHERS)
            theirs = crowd.submit("theirs", count, scheduler=OTHERS)
            theirs_s = await self._part(f"{count} pods of kube-scheduler come at once", theirs)
        finally:
            self._plane.end(BINDER)
        await self._part("the pods of kube-scheduler go", crowd.leave("awake", "theirs"))
        peer = report.against("the same pods by kube-scheduler, 1,000 requests/s", theirs_s, ours=ours_s)
        bound, what = round(_TIMES_AS_LONG * theirs_s, 3), f"{count} pods at once, amid the crowd"
        return [
            report.at_most(f"{what}: until all are bound", ours_s, bound=bound, n=count, peer=peer, limited_by=why),
            report.at_most(
                f"{what}: the scheduler's processor time", own_ms, unit="ms/pod", bound=_OWN_MS, n=count, limited_by=why
            ),
        ]

    async def _amid_huge(self, alone: Sequence[float]) -> list[report.Figure]:
        """Time good pods on the node with pods of a megabyte, and measure the scheduler's memory for these."""
        count, before_mib = self._sizes.huge, (await self._scheduler.spent()).memory_mib
        what = f"{count} pods of a megabyte"
        await self._part(f"{what} come", self._crowd.swell(count))
        took = await self._part(f"{what} are there", self._good("amid-huge", self._sizes.good, node=self._crowd.first))
        figures = self._against(alone, f"{what} on its node", took)
        taken_mib = (await self._scheduler.spent()).memory_mib - before_mib
        await self._part(f"{what} go", self._crowd.leave("huge"))
        return [
            *figures,
            report.at_most(f"memory for {what}", taken_mib, bound=_READ_MIB + count / 2, unit="MiB", limited_by=_KEPT),
        ]

    def turn(self, holds: Sequence[Hold]) -> report.Figure:
        """Return the longest turn of the scheduler's event loop, and in which part it was."""
        at_s = longest(holds).at_s
        when = "".join(f", while {part.name}" for part in self._parts if part.began_s <= at_s <= part.ended_s)
        turn = report.longest_turn(holds, bound_s=_HELD_S)
        return msgspec.structs.replace(turn, figure=f"{turn.figure}{when}")

    async def _part(self, name: str, work: Awaitable[T]) -> T:
        began, began_s = census.take(self._pids()), time.monotonic()
        try:
            return await work
        finally:
            in_words = census.take(self._pids()).busiest_since(began)
            self._parts.append(Part(name=name, began_s=began_s, ended_s=time.monotonic(), in_words=in_words))

    def _against(self, alone: Sequence[float], when: str, took: Sequence[float]) -> list[report.Figure]:
        what, value = f"good pod bound, {when}: median", report.median(took)
        peer = report.against("alone", report.median(alone), ours=value)
        bound = round(_TIMES_AS_LONG * report.median(alone), 4)
        why = self._parts[-1].in_words
        return [
            report.at_most(what, value, bound=bound, n=len(took), peer=peer, limited_by=why),
            report.observed(f"good pod bound, {when}: longest", max(took), n=len(took)),
        ]

    async def _good(self, name: str, count: int, *, node: str = "") -> list[float]:
        return [await self._good_pod(f"{name}-{number}", node=node) for number in range(count)]

    async def _good_until(self, done: asyncio.Task[float], name: str) -> list[float]:
        """Time good pods until the task is done; at least one."""
        took = [await self._good_pod(f"{name}-0")]
        while not done.done():
            took.append(await self._good_pod(f"{name}-{len(took)}"))
        return took

    async def _good_pod(self, name: str, *, node: str = "") -> float:
        """Create a good pod, on any node or on this one. Return the seconds until it was bound, and delete it."""
        nodes = (node,) if node else ()
        return await self._pods.time_one(Wave(name=f"good-{name}", count=1, is_service=True, nodes=nodes))

    async def _share_at_rest(self) -> float:
        before = await self._scheduler.spent()
        await asyncio.sleep(_REST_S)
        return (await self._scheduler.spent()).since(before).cpu_s / _REST_S

    async def _memory(self) -> list[report.Figure]:
        sizes, used_mib = self._sizes, list[float]()
        each = sizes.gone // sizes.rounds
        for number in range(sizes.rounds):
            name = f"gone-{number}"
            await asyncio.gather(
                self._crowd.submit(f"{name}-ours", each // 2),
                self._crowd.arrive(
                    f"{name}-others", each_s=sizes.foreign_each_s, for_s=each / 2 / sizes.foreign_each_s
                ),
            )
            await self._crowd.leave(name)
            used_mib.append((await self._scheduler.spent()).memory_mib)
        warm, last = used_mib[sizes.rounds // 4], used_mib[-1]
        what = f"memory after {sizes.gone} pods came and went"
        peer = report.against(f"after {each * (1 + sizes.rounds // 4)}", warm, ours=last)
        bound = round(_GROWTH * warm, 1)
        return [report.at_most(what, last, bound=bound, unit="MiB", n=sizes.gone, peer=peer, limited_by=_KEPT)]


def _observed(what: str, took: Sequence[float]) -> list[report.Figure]:
    return [
        report.observed(f"{what}: median", report.median(took), n=len(took)),
        report.observed(f"{what}: longest", max(took), n=len(took)),
    ]


def measure(asked: Asked) -> list[report.Figure]:
    with control_plane("neighbours") as plane:
        return asyncio.run(_measure(plane, QUICK if asked.quick else Sizes()))


async def _measure(plane: ControlPlane, sizes: Sizes) -> list[report.Figure]:
    pool, holds = Pool(name="crowded", size=sizes.nodes, disk_gib=DISK_GIB), list[Hold]()
    async with (
        await Kube.connect(plane.admin) as kube,
        slurm_of(plane.folder / "slurm", f"{_SHORT_OF_JOBS}{pool.conf}", count=sizes.nodes) as running,
    ):
        await furnish(kube, [pool])
        await make_if_missing(kube, paths.NAMESPACES, {"metadata": {"name": NAMESPACE}})
        pods, crowd = Pods(kube), Crowd(kube, pool.nodes)
        folder = plane.folder / "scheduler"
        async with (
            scheduling(folder, plane.admin, running.settings, holds=holds) as scheduler,
            pods.watched(),
            crowd.pods.watched(),
        ):
            bench = Bench(plane, running.slurm, scheduler, crowd, pods, sizes)
            figures = await bench.run()
        return [*figures, bench.turn(holds)]

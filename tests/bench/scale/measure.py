"""How long one event takes among very many nodes, and what it costs; and what an idle cluster costs.

Each size has an environment of its own. The DaemonSet controller creates pods, then the operator does. These are bound
and run, Slurm starts, and slurmctld is measured alone. Then syncer and scheduler start, and the cluster is idle for a
while. Then single nodes are cordoned, and others drained in Slurm, first on a quiet cluster, then while jobs start and
end. At last slurmctld gets some more nodes. A random pause before each event spreads the events over the time of a
poll.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import click
import msgspec

from devcluster.shell import run
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.slurm import Slurm
from tests.bench import census, report
from tests.bench.asked import Asked
from tests.bench.ground import PATIENCE_S, ControlPlane, RunningSlurm, control_plane, slurm_of, time_cordon
from tests.bench.ours import Ours, as_admin, running, scheduler_settings, syncer_settings
from tests.bench.scale import figures, ground
from tests.bench.scale.ground import DAEMONS, PEER_NAMESPACE, Pods, pool_of
from tests.bench.simulated import NAMESPACE, Pool
from tests.polling import until

SIZES = (500, 1_000, 5_000, 10_000)
QUICK_SIZES = (100,)
STOCK_UP_TO = 5_000
"""The largest number of nodes for which the DaemonSet controller runs with its default limit: it takes 250 s for
these.
"""
_ALONE_MIB = 900
_EACH_NODE_MIB = 1.6
"""The memory in MiB for each node: etcd, apiserver, KWOK, kube-scheduler, slurmctld and slurmrestd, sunkpy and the
bench.
"""


class Rounds(msgspec.Struct, frozen=True, kw_only=True):
    """How many samples of each kind, how many seconds the cluster is idle, and how many seconds it gets to settle."""

    samples: int = 50
    idle_s: float = 60.0
    settle_s: float = 10.0


QUICK = Rounds(samples=10, idle_s=15.0, settle_s=3.0)


def needed_mib(size: int) -> int:
    return int(_ALONE_MIB + _EACH_NODE_MIB * size)


def free_mib() -> int:
    """Return the memory in MiB that new programs may use."""
    found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    assert found is not None
    return int(found[1]) // 1024


_DAEMONSETS = f"/apis/apps/v1/namespaces/{PEER_NAMESPACE}/daemonsets"
_EVENT_S = 60.0
_QUIET_S, _QUIET_PER_S = 10.0, 2
_PAUSE_S = 1.0
_NEW_NODES = 50


def measure(asked: Asked) -> list[report.Figure]:
    """Measure all sizes that fit into memory, the smallest first."""
    rounds, free = QUICK if asked.quick else Rounds(), free_mib()
    found, reached = list[report.Figure](), 0
    for size in sorted(set(asked.sizes or (QUICK_SIZES if asked.quick else SIZES))):
        if (needed := needed_mib(size)) > free:
            found.append(figures.not_run(size, needed_mib=needed, free_mib=free))
            continue
        click.echo(f"scale: {size} nodes")
        with control_plane("scale") as plane:
            found += asyncio.run(Bench(plane, pool_of(size), rounds).run())
        reached = size
        report.save("scale", found)  # the next size takes longer: keep these figures if it fails
    return [*found, report.observed("measured up to", reached, unit="nodes")]


class Bench:
    def __init__(self, plane: ControlPlane, pool: Pool, rounds: Rounds) -> None:
        self._pool = pool
        self._at = f"{pool.size} nodes"
        self._rounds = rounds
        self._plane = plane
        self._ours: dict[str, Ours] = {}
        self._slurm_pid = 0
        self._moments = random.Random(pool.size)

    async def run(self) -> list[report.Figure]:
        async with await Kube.connect(self._plane.admin) as kube:
            await ground.furnish(kube, self._pool)
            ground.start_keeper(self._plane)
            await until(lambda: _is_quiet(kube), timeout_s=PATIENCE_S, what="the Nodes are kept")
            peers_s = await self._daemonsets(kube)
            pods = Pods(kube, NAMESPACE)
            async with pods.watched(), self._running("operator", {}):
                created = await self._nodeset(kube, pods, peers_s)
                self._plane.start_binder()
                conf, count = self._pool.conf, self._pool.size
                async with slurm_of(self._plane.folder / "slurm", conf, count=count + _NEW_NODES) as slurm:
                    return [*created, *await self._mirrored(kube, pods, slurm)]

    async def _mirrored(self, kube: Kube, pods: Pods, running_slurm: RunningSlurm) -> list[report.Figure]:
        self._slurm_pid = running_slurm.real.pid
        settings = running_slurm.settings
        slurm = Slurm.connect(as_admin(settings))
        without = await self._share_of_slurmctld()
        async with (
            self._running("syncer", syncer_settings(settings)),
            self._running("scheduler", scheduler_settings(settings)),
        ):
            await self._settled(kube, pods, slurm)
            idle = await self._idle(without)
            quiet = await self._delays(kube, pods, slurm, figures.QUIET)
            async with ground.job_starts(running_slurm.slurm) as starts:
                await asyncio.sleep(self._rounds.settle_s)
                began_s, before, failed = time.monotonic(), starts.submitted, starts.failed
                busy = await self._delays(kube, pods, slurm, figures.BUSY)
                span_s = time.monotonic() - began_s
                rate, failing = (starts.submitted - before) / span_s, (starts.failed - failed) / span_s
            held = self._take().memory_mib
        await slurm.close()
        new_node_s = await self._new_node_s()
        new_node = f"{self._at}: slurmctld's processor time for a new node"
        return [
            *quiet,
            *busy,
            *figures.starts(self._at, rate, failing),
            *idle,
            report.observed(new_node, 1000 * new_node_s, unit="ms"),
            *figures.memory(self._at, held),
        ]

    # --------------------------------------------------------------- creation

    async def _daemonsets(self, kube: Kube) -> dict[str, float]:
        peers_s = {figures.UNLIMITED: await self._daemonset(kube, is_limited=False)}
        if self._pool.size <= STOCK_UP_TO:
            peers_s[figures.STOCK] = await self._daemonset(kube, is_limited=True)
        return peers_s

    async def _daemonset(self, kube: Kube, *, is_limited: bool) -> float:
        """Return the seconds until all pods of a DaemonSet exist. Then remove them and the controller."""
        ground.start_daemons(self._plane, is_limited=is_limited)
        size, pods = self._pool.size, Pods(kube, PEER_NAMESPACE)
        await kube.create(_DAEMONSETS, ground.daemonset("none", node_selector={"there": "is-none"}))
        await until(lambda: _has_seen(kube, "none"), timeout_s=PATIENCE_S, what="the DaemonSet controller works")
        async with pods.watched():
            began_s = time.monotonic()
            await kube.create(_DAEMONSETS, ground.daemonset("peer", node_selector={}))
            all_there_s = await pods.until(lambda: len(pods) >= size, what="all pods of the DaemonSet")
            self._plane.end(DAEMONS)
            await kube.request("DELETE", _DAEMONSETS)
            await ground.delete_pods(kube, PEER_NAMESPACE, pods.names)
            await pods.until(lambda: not len(pods), what="the pods of the DaemonSet are gone")
        return all_there_s - began_s

    async def _nodeset(self, kube: Kube, pods: Pods, peers_s: dict[str, float]) -> Iterator[report.Figure]:
        before, began_s = self._take(), time.monotonic()
        await kube.create(paths.nodesets(NAMESPACE), ground.nodeset())
        all_there_s = await pods.until(lambda: len(pods) >= self._pool.size, what="all pods of the NodeSet")
        return figures.created(self._at, all_there_s - began_s, peers_s, self._take().busiest_since(before))

    # ------------------------------------------------------------------- idle

    async def _settled(self, kube: Kube, pods: Pods, slurm: Slurm) -> None:
        """Wait until every pod shows its Slurm node, every Slurm node has its pod as comment, and nobody writes."""
        size = self._pool.size
        await pods.until(lambda: len(pods.told) >= size, what="all pods are told of Slurm")
        last = self._pool.slurm_nodes

        async def all_commented() -> bool:
            return all([(await slurm.node(name)).comment for name in last[:: max(1, size // 10)]])

        await until(all_commented, timeout_s=PATIENCE_S, what="all Slurm nodes know their pods", every_s=1.0)
        await until(lambda: _is_quiet(kube), timeout_s=PATIENCE_S, what="nobody writes any more, or lists")
        await asyncio.sleep(self._rounds.settle_s)

    async def _idle(self, slurmctld_without: float) -> list[report.Figure]:
        before = {name: await process.spent() for name, process in self._ours.items()}
        began_s = time.monotonic()
        slurmctld_with = await self._share_of_slurmctld()
        span_s = time.monotonic() - began_s
        spent = {name: (await process.spent()).since(before[name]) for name, process in self._ours.items()}
        return figures.idle(
            self._at, spent, span_s=span_s, slurmctld_with=slurmctld_with, slurmctld_without=slurmctld_without
        )

    async def _share_of_slurmctld(self) -> float:
        """Return slurmctld's share of a core while the bench does nothing."""
        before = self._take()
        await asyncio.sleep(self._rounds.idle_s)
        return self._take().shares_since(before)["slurmctld"]

    async def _new_node_s(self) -> float:
        """Return slurmctld's processor time for each of some more nodes, made one by one as slurmds register."""
        scontrol = ["nsenter", f"--target={self._slurm_pid}", "--all", "scontrol", "create"]
        before = self._take()
        for number in range(_NEW_NODES):
            node = f"NodeName=new-{number} NodeAddr=127.0.0.1 CPUs={self._pool.cpus} State=EXTERNAL"
            await asyncio.to_thread(run, [*scontrol, *node.split()])
        return (self._take().cpu_s["slurmctld"] - before.cpu_s["slurmctld"]) / _NEW_NODES

    # ----------------------------------------------------------------- events

    async def _delays(self, kube: Kube, pods: Pods, slurm: Slurm, under: str) -> list[report.Figure]:
        """Time cordons and drains. Each sample has a node of its own, and is undone at once."""
        half = self._pool.size // 2
        pool = self._pool
        cordon = await self._sampled(
            lambda number: time_cordon(kube, slurm, pool.node(number), pool.slurm_node(number))
        )
        drain = await self._sampled(lambda number: self._drain(pods, slurm, half + number))
        await pods.until(lambda: not pods.drained, what="all drains are lifted")
        kinds = ((figures.CORDON, cordon), (figures.DRAIN, drain))
        return [figure for what, sampled in kinds for figure in figures.delay(self._at, what, under, *sampled)]

    async def _sampled(self, sample: Callable[[int], Awaitable[float]]) -> tuple[list[float], str]:
        """Return the seconds of each sample, and which programs used the machine meanwhile."""
        took_s, before = [], self._take()
        for number in range(min(self._rounds.samples, self._pool.size // 2)):
            await asyncio.sleep(self._moments.uniform(0, _PAUSE_S))
            took_s.append(await sample(number))
        return took_s, self._take().busiest_since(before)

    async def _drain(self, pods: Pods, slurm: Slurm, number: int) -> float:
        """Drain a Slurm node. Return the seconds until the pod's condition shows it."""
        name = self._pool.slurm_node(number)
        began_s = time.monotonic()
        await slurm.drain_node(name, "a person wants it")
        told_s = await pods.until(lambda: name in pods.drained, what=f"pod {name} is told", timeout_s=_EVENT_S)
        await slurm.undrain_node(name)
        return told_s - began_s

    # ----------------------------------------------------------------- who is

    @contextlib.asynccontextmanager
    async def _running(self, name: str, settings: dict[str, object]) -> AsyncIterator[None]:
        async with running(name, self._plane.folder / "sunkpy", self._plane.admin, settings) as process:
            self._ours[name] = process
            yield

    def _take(self) -> census.Census:
        ours = {name: process.process.pid for name, process in self._ours.items()}
        return census.take(self._plane.pids(ours, slurm=self._slurm_pid))


async def _is_quiet(kube: Kube) -> bool:
    """True if for some seconds there are hardly any writes (revisions of etcd) and hardly any lists."""
    before = await _revision(kube), await _lists(kube)
    await asyncio.sleep(_QUIET_S)
    after = await _revision(kube), await _lists(kube)
    return max(now - then for now, then in zip(after, before, strict=True)) < _QUIET_S * _QUIET_PER_S


async def _lists(kube: Kube) -> int:
    lines = (await kube.request("GET", "/metrics")).decode().splitlines()
    made = [line for line in lines if line.startswith("apiserver_request_total{") and 'verb="LIST"' in line]
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in made)


async def _revision(kube: Kube) -> int:
    """Return the current revision of etcd, which every list has."""
    return int(json.loads(await kube.request("GET", f"{_DAEMONSETS}?limit=1"))["metadata"]["resourceVersion"])


async def _has_seen(kube: Kube, daemonset: str) -> bool:
    found = json.loads(await kube.request("GET", f"{_DAEMONSETS}/{daemonset}"))
    return bool(found.get("status", {}).get("observedGeneration"))

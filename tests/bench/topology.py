"""Slurm's topology among very many nodes: labels that change, a restart of slurmctld, ranks of gangs.

apiserver, slurmctld 26.05, syncer and scheduler are real; nodes are only records. Nodes with neighbouring numbers are
under different leaf switches, so Slurm's order of nodes alternates between leaves. The syncer's file reaches slurmctld
at once, where the chart's load_topology.sh checks and loads it; on a cluster the kubelet takes a minute. The syncer
writes a file at most every two minutes here, not every ten. There are no slurmds, which a reconfigure would restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

import click
import msgspec

from sunkpy.core import names
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import is_job_running
from sunkpy.core.topology import files, restart
from sunkpy.core.topology.pace import Pace
from sunkpy.core.topology.places import Place, switch_names, topology_str_of
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.slurm import NodesSnapshot, Slurm
from sunkpy.slurm.errors import SlurmError
from sunkpy.syncer.places import ConfigMap
from tests.bench import census, report
from tests.bench.asked import Asked
from tests.bench.burst.load import Pods, Wave, all_run, end_all, submit_plain
from tests.bench.ground import PATIENCE_S, ControlPlane, RunningSlurm, beside, bring, control_plane, in_flight, slurm_of
from tests.bench.ours import Ours, running, scheduler_settings, syncer_settings
from tests.bench.scale.ground import pool_of
from tests.bench.simulated import AT_ONCE, NAMESPACE, Pool, make_namespace
from tests.integration.slurm import kept_topology
from tests.integration.slurm.kept_topology import keep_topology, loads
from tests.polling import until

SIZES, QUICK_SIZES = (1_000, 10_000), (1_000,)
_TOLD_S, _SILENT_S, _ANSWERS_S = 10.0, 3.0, 10.0
_LEAF, _LEAVES_OF_A_SPINE = 16, 40
_CHANGES, _SAMPLES, _JOBS = 1_000, 20, 100
_GANGS, _MEMBERS = 10, 24
_LOOK_S, _SETTLES_S = 0.1, 5.0
_SPINE_LABEL, _LEAF_LABEL = (f"network.topology.nvidia.com/{level}" for level in ("spine", "leaf"))
_CONFIG_MAP = "bench-topology"
_PACE = Pace(each_s=120.0, settles_s=_SETTLES_S, longest_s=15.0)
_ROOT = files.write_yaml(["tree"], [], [])
_JOB = JobSpec(name="stays", script="#!/bin/sh\n", comment="plain", memory_mib_per_node=64)


def measure(asked: Asked) -> list[report.Figure]:
    """Measure each size in an environment of its own."""
    figures: list[report.Figure] = []
    for size in asked.sizes or (QUICK_SIZES if asked.quick else SIZES):
        click.echo(f"topology: {size} nodes")
        with control_plane("topology") as plane:
            figures += asyncio.run(_Bench(plane, pool_of(size)).run())
        report.save("topology", figures)  # the next size takes longer: keep these figures if somebody ends it
    return figures


class _Bench:
    """The measurements with one number of nodes. `_leaf_of`: number of each node → its leaf switch."""

    def __init__(self, plane: ControlPlane, pool: Pool) -> None:
        self._plane = plane
        self._pool = pool
        self._leaves = pool.size // _LEAF
        self._leaf_of = {number: number % self._leaves for number in range(pool.size)}

    async def run(self) -> list[report.Figure]:
        async with await Kube.connect(self._plane.admin) as kube:
            await self._furnish(kube)
            async with self._slurm() as slurm, self._syncer(slurm):
                began_s = time.monotonic()
                put = partial(kept_topology.bring, slurm.real)
                async with beside(bring(kube, NAMESPACE, _CONFIG_MAP, put)):
                    await self._until_told(slurm.slurm)
                    told_s = time.monotonic() - began_s
                    await self._until_laid(kube, slurm)
                    return [
                        self._observed("until Slurm has all places", told_s),
                        *await self._single_changes(kube, slurm.slurm),
                        *await self._many_changes(kube, slurm),
                        *await self._restart(slurm),
                        *await self._gangs(kube, slurm),
                    ]

    async def _furnish(self, kube: Kube) -> None:
        await make_namespace(kube)
        await kube.create(f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": {"name": _CONFIG_MAP}})

        async def make(number: int) -> None:
            await self._pool.make_node(kube, number, labels=self._labels(number))
            await self._pool.make_slurmd(kube, number)
            ready = {"conditions": [{"type": kind, "status": "True"} for kind in ("ContainersReady", "Ready")]}
            pod = paths.status(paths.pod(NAMESPACE, self._pool.slurm_node(number)))
            await kube.patch(pod, {"status": {"phase": "Running", **ready}})

        await in_flight(AT_ONCE, (partial(make, number) for number in range(self._pool.size)))

    def _labels(self, number: int) -> dict[str, str]:
        leaf = self._leaf_of[number]
        return {_SPINE_LABEL: f"s{leaf // _LEAVES_OF_A_SPINE}", _LEAF_LABEL: f"l{leaf}"}

    def _place(self, number: int) -> str:
        """Return the topology that Slurm should have for the node, by its labels."""
        return topology_str_of(Place(switches=switch_names([*self._labels(number).values()])), ["tree"])

    @contextlib.asynccontextmanager
    async def _slurm(self) -> AsyncIterator[RunningSlurm]:
        """Yield a Slurm with dynamic nodes, as slurmds make them: these alone keep their topology over a restart."""
        own, count = {files.YAML: _ROOT}, self._pool.size
        folder, keep = self._plane.folder / "slurm", keep_topology(own)
        async with slurm_of(folder, "", count=count, files=own, slurmctld=keep) as slurm:
            create = ["scontrol", "create", *self._pool.conf.split()]
            failed, says = await asyncio.to_thread(slurm.real.run_as, "slurm", *create)
            if failed:
                raise RuntimeError(f"scontrol made no nodes: {says}")
            yield slurm

    def _running(self, name: str, settings: Mapping[str, object]) -> AbstractAsyncContextManager[Ours]:
        return running(name, self._plane.folder / "sunkpy", self._plane.admin, settings)

    def _syncer(self, slurm: RunningSlurm) -> AbstractAsyncContextManager[Ours]:
        topology = {"source": "topograph", "configMap": _CONFIG_MAP, "pace": msgspec.to_builtins(_PACE)}
        return self._running("syncer", {**syncer_settings(slurm.settings), "topology": topology})

    async def _until_told(self, slurm: Slurm) -> None:
        """Wait until Slurm has for each node the topology of its labels."""
        wanted = {self._pool.slurm_node(number): self._place(number) for number in self._leaf_of}

        async def is_told() -> bool:
            with contextlib.suppress(SlurmError):
                return await _records(slurm) == wanted
            return False

        await until(is_told, timeout_s=PATIENCE_S, what="Slurm has all places", every_s=1.0)

    async def _until_laid(self, kube: Kube, slurm: RunningSlurm) -> None:
        """Wait until slurmctld has loaded a topology file with which it can restart quickly."""
        path = paths.config_map(NAMESPACE, _CONFIG_MAP)

        async def is_laid() -> bool:
            text = (await kube.get(path, ConfigMap)).data.get(files.YAML, "")
            state = slurm.real.root / "var/lib/slurm/state"
            kept, loading = state / "topology" / files.YAML, state / "topology.loading"
            if not text or not kept.exists() or kept.read_text() != text or loading.exists():
                return False
            records = restart.paths_of(await _records(slurm.slurm))
            in_file = files.paths_in(files.read(files.YAML, text))
            return restart.to_place(records, in_file, enough_s=_PACE.start_s) is in_file

        await until(is_laid, timeout_s=PATIENCE_S, what="the topology file is loaded", every_s=2.0)

    def _at(self, figure: str) -> str:
        return f"{self._pool.size} nodes: {figure}"

    def _observed(self, figure: str, value: float) -> report.Figure:
        return report.observed(self._at(figure), value)

    async def _change(self, kube: Kube, number: int) -> None:
        """Change the labels of a node to a leaf switch far away."""
        self._leaf_of[number] = (self._leaf_of[number] + self._leaves // 2) % self._leaves
        await kube.patch(paths.node(self._pool.node(number)), {"metadata": {"labels": self._labels(number)}})

    async def _single_changes(self, kube: Kube, slurm: Slurm) -> list[report.Figure]:
        took_s = []
        for number in range(_SAMPLES):
            began_s = time.monotonic()
            await self._change(kube, number)

            async def is_told(number: int = number) -> bool:
                return (await slurm.node(self._pool.slurm_node(number))).topology == self._place(number)

            await until(is_told, timeout_s=PATIENCE_S, what="the change is in Slurm", every_s=_LOOK_S)
            took_s.append(time.monotonic() - began_s)
        what = self._at("from a label to Slurm")
        return [
            report.observed(f"{what}, median", report.median(took_s), n=len(took_s)),
            report.at_most(f"{what}, longest", max(took_s), bound=_TOLD_S, n=len(took_s)),
        ]

    async def _many_changes(self, kube: Kube, slurm: RunningSlurm) -> list[report.Figure]:
        jobs = await submit_plain(slurm.slurm, [_JOB] * _JOBS)
        await all_run(slurm.slurm, jobs)
        before = loads(slurm.real)
        async with _asking(slurm.slurm, self._pool.slurm_node(0)) as answers:
            began_s = time.monotonic()
            await in_flight(AT_ONCE, (partial(self._change, kube, number) for number in range(_CHANGES)))
            await self._until_told(slurm.slurm)
            took_s = time.monotonic() - began_s
            await asyncio.sleep(_PACE.longest_s + _SETTLES_S)
            await self._until_laid(kube, slurm)
        states = await slurm.slurm.jobs_state()
        lost = [str(job) for job in jobs if not is_job_running(states.get(job, frozenset()))]
        await end_all(slurm.slurm)
        what = f"{_CHANGES} labels change"
        return [
            self._observed(f"{what}, until Slurm has them", took_s),
            report.at_most(self._at(f"{what}: reconfigures"), loads(slurm.real) - before, unit="", bound=1),
            report.none(self._at(f"{what}: jobs lost"), lost, n=len(jobs)),
            report.at_most(
                self._at(f"{what}: longest time without an answer"), answers.longest_s, bound=_SILENT_S, n=answers.count
            ),
        ]

    async def _restart(self, slurm: RunningSlurm) -> list[report.Figure]:
        """Restart slurmctld in order, as for an upgrade, with the topology of all nodes in its records."""
        starts, before = slurm.real.starts("slurmctld"), await _records(slurm.slurm)

        async def is_up() -> bool:
            if slurm.real.starts("slurmctld") == starts:
                return False
            return " is UP" in (await asyncio.to_thread(slurm.real.run_as, "slurm", "scontrol", "ping"))[1]

        slurm.real.send("TERM", "slurmctld")
        began_s = time.monotonic()
        await until(is_up, timeout_s=PATIENCE_S, what="slurmctld answers again", every_s=_LOOK_S)
        took_s = time.monotonic() - began_s
        spent_s = census.take(census.slurm_daemons_of(slurm.real.pid)).cpu_s["slurmctld"]
        other = [name for name, place in (await _records(slurm.slurm)).items() if before[name] != place]
        return [
            report.at_most(self._at("a restart of slurmctld"), took_s, bound=_ANSWERS_S),
            self._observed("its processor time until it answers", spent_s),
            report.none(self._at("nodes that are elsewhere after it"), other, n=len(before)),
        ]

    async def _gangs(self, kube: Kube, slurm: RunningSlurm) -> list[report.Figure]:
        """Count gangs whose ranks return to a leaf that they have left. Each pod fills a node, so a gang is under
        several leaves. Pods are ranked by age, then name.
        """
        wave = Wave(name="gang", count=_GANGS * _MEMBERS, gang=_MEMBERS, cpus=self._pool.cpus)
        pods = Pods(kube)
        async with self._running("scheduler", scheduler_settings(slurm.settings)), pods.watched():
            await pods.create(wave.bodies)
            await pods.until_bound(wave.names)
            found = [pod for name in wave.names if (pod := pods.get(name)) is not None]
        place_of = {self._pool.node(number): self._place(number) for number in self._leaf_of}
        broken, in_order = [], 0
        for gang, members in itertools.groupby(found, lambda pod: pod.annotations[names.ANNOTATION_GANG]):
            nodes = [
                pod.spec.node_name
                for pod in sorted(members, key=lambda pod: (pod.metadata.creation_timestamp, pod.name))
            ]
            broken += [gang] if alternates([place_of[node] for node in nodes]) else []
            in_order += alternates([place_of[node] for node in sorted(nodes)])
        return [
            report.none(self._at("gangs whose ranks come back to a leaf that they have left"), broken, n=_GANGS),
            report.observed(self._at("such gangs in the order of Slurm's nodes"), in_order, unit="", n=_GANGS),
        ]


def alternates(leaves: Sequence[str]) -> bool:
    """True if ranks in this order return to a leaf switch that they have left."""
    runs = [leaf for leaf, _ in itertools.groupby(leaves)]
    return len(runs) > len(set(runs))


async def _records(slurm: Slurm) -> dict[str, str]:
    answer = await slurm.nodes()
    assert isinstance(answer, NodesSnapshot)
    return {name: node.topology for name, node in answer.nodes.items()}


class _Answers:
    """How many answers Slurm gave, and the longest time in seconds between two."""

    longest_s, count = 0.0, 0


@contextlib.asynccontextmanager
async def _asking(slurm: Slurm, node: str) -> AsyncIterator[_Answers]:
    answers = _Answers()

    async def ask() -> None:
        last_s = time.monotonic()
        while True:
            with contextlib.suppress(SlurmError):
                await slurm.node(node)
                now_s = time.monotonic()
                answers.longest_s = max(answers.longest_s, now_s - last_s)
                answers.count, last_s = answers.count + 1, now_s
            await asyncio.sleep(_LOOK_S)

    async with beside(ask()):
        yield answers

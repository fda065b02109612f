"""What a NodeSet of many nodes costs the operator, without a cluster: real watches, indexes and loops over text.

For each size, in a process of its own: CPU time of the first pass, of one pass after one event (a
node, a slurmd pod), of a pass over one Node; resident memory; and CPU time for each pod that is created. CPU time is
that of this process alone: neither an apiserver nor a network takes part.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import multiprocessing
import re
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

from sunkpy.core.model.objects import KubeObject
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.operator.settings import OperatorSettings
from sunkpy.operator.term import Term
from sunkpy.runtime.process import Process, settle_garbage_collector
from tests.bench import report
from tests.bench.dry_cluster import NODESET, Body, DryConnection, node_body, slurmd_body

SIZES = (500, 1_000, 5_000, 10_000)
QUICK_SIZES = (500, 1_000)
_EVENTS = 40
_FLAT = 0.2  # of the growth in nodes may be seen in the cost of an event: the processor's caches are what they are
_MEMORY_MIB = 400
_MIB = 2**20


Call = Callable[[], Awaitable[None]]


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Of one size: CPU milliseconds, and MiB."""

    size: int
    first_pass_ms: float
    resync_ms: float
    node_event_ms: float
    pod_event_ms: float
    node_pass_ms: float
    create_ms: float
    memory_mib: float
    peak_mib: float


def measure(*, quick: bool) -> list[report.Figure]:
    """Every size in a process of its own, so that none keeps memory of another."""
    spawn = multiprocessing.get_context("spawn")
    costs = []
    for size in QUICK_SIZES if quick else SIZES:
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            costs.append(pool.submit(measure_size, size).result())
    return list(itertools.chain(*map(_figures, costs), _flatness(costs)))


def measure_size(size: int) -> Costs:
    """Run in a fresh process."""
    return asyncio.run(_measure_size(size))


async def _measure_size(size: int) -> Costs:
    settle_garbage_collector()
    before_mib = _memory_mib("VmRSS")
    running = await DryOperator.start(size, has_pods=True)
    first_pass_ms = await _cpu_ms(running.nodeset_pass)
    running.term.surveys.touch_all()
    resync_ms = await _cpu_ms(running.nodeset_pass)
    node_events = [await _cpu_ms(running.node_event(number)) for number in _numbers(size)]
    pod_events = [await _cpu_ms(running.pod_event(number)) for number in _numbers(size)]
    node_passes = [await _cpu_ms(running.node_pass(number)) for number in _numbers(size)]
    gc.collect()
    memory_mib, peak_mib = _memory_mib("VmRSS"), _memory_mib("VmHWM")
    await running.stop()
    del running
    gc.collect()
    return Costs(
        size=size,
        first_pass_ms=first_pass_ms,
        resync_ms=resync_ms,
        node_event_ms=statistics.median(node_events),
        pod_event_ms=statistics.median(pod_events),
        node_pass_ms=statistics.median(node_passes),
        create_ms=await _create_ms(size),
        memory_mib=memory_mib - before_mib,
        peak_mib=peak_mib,
    )


async def _create_ms(size: int) -> float:
    """CPU milliseconds for each pod, from an empty NodeSet to the last POST; no event comes in between."""
    running = await DryOperator.start(size, has_pods=False)

    async def fill() -> None:
        while running.connection.created < size:
            before = running.connection.created
            await running.nodeset_pass()
            if running.connection.created == before:
                await asyncio.sleep(0.05)  # until there is room for more

    took_ms = await _cpu_ms(fill)
    await running.stop()
    return took_ms / size


class DryOperator:
    """The parts of a term over a dry cluster; the queues are left alone, the bench makes each pass itself."""

    def __init__(self, connection: DryConnection) -> None:
        self.connection = connection
        process = Process("operator", OperatorSettings())
        self.term = Term(Kube(connection), process, OperatorSettings(), OperatorMetrics(process.registry))
        self._told, self._version = asyncio.Event(), ""
        for watch in (self.term.node_watch, self.term.pod_watch):
            watch.add_handler(self._hear)
        self._watches = [
            asyncio.ensure_future(self.term.node_watch.run()),
            asyncio.ensure_future(self.term.pod_watch.run()),
        ]

    @classmethod
    async def start(cls, size: int, *, has_pods: bool) -> DryOperator:
        """Return when both watches have listed."""
        running = cls(DryConnection(size, has_pods=has_pods))
        running.term.nodeset_seen(NODESET, False)
        await running.term.node_watch.synced.wait()
        await running.term.pod_watch.synced.wait()
        return running

    def _hear(self, _: KubeObject | None, new: KubeObject | None) -> None:
        if new is not None:
            self._version = new.metadata.resource_version
            self._told.set()

    async def _heard(self, version: str) -> None:
        """Until the informer has handled an event."""
        while self._version != version:
            self._told.clear()
            await self._told.wait()

    async def stop(self) -> None:
        """End the watches."""
        for task in self._watches:
            task.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)

    async def nodeset_pass(self) -> None:
        """One pass over the NodeSet."""
        await self.term.nodeset_loop.reconcile(NODESET.key)

    def node_pass(self, number: int) -> Call:
        """One pass over one Node."""
        name = _name(node_body(number))

        async def happen() -> None:
            await self.term.node_loop.reconcile(name)

        return happen

    def node_event(self, number: int) -> Call:
        """A Node is cordoned, and what follows for the NodeSet."""
        return self._event(paths.NODES, node_body(number, unschedulable=True))

    def pod_event(self, number: int) -> Call:
        """A job starts on a Slurm node, and what follows for the NodeSet."""
        return self._event(paths.ALL_PODS, slurmd_body(number, running="True"))

    def _event(self, path: str, body: Body) -> Call:
        version, line = self.connection.event(body)

        async def happen() -> None:
            self.connection.tell(path, line)
            await self._heard(version)
            await self.nodeset_pass()

        return happen


def _name(body: dict[str, object]) -> str:
    meta = body["metadata"]
    assert isinstance(meta, dict)
    return str(meta["name"])


def _numbers(size: int) -> range:
    return range(0, size, size // _EVENTS)


async def _cpu_ms(call: Call) -> float:
    before_s = time.process_time()
    await call()
    return (time.process_time() - before_s) * 1000


def _memory_mib(what: str) -> float:
    found = re.search(rf"^{what}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def _figures(costs: Costs) -> list[report.Figure]:
    at = f"{costs.size} nodes"
    return [
        report.observed(f"first pass over the NodeSet, {at}", costs.first_pass_ms, unit="CPU ms", n=1),
        report.observed(f"pass that judges every node anew, {at}", costs.resync_ms, unit="CPU ms", n=1),
        report.observed(f"pass after one node event, {at}", costs.node_event_ms, unit="CPU ms", n=_EVENTS),
        report.observed(f"pass after one pod event, {at}", costs.pod_event_ms, unit="CPU ms", n=_EVENTS),
        report.observed(f"pass over one Node, {at}", costs.node_pass_ms, unit="CPU ms", n=_EVENTS),
        report.observed(f"creation of a pod, {at}", costs.create_ms, unit="CPU ms", n=costs.size),
        report.at_most(f"memory of the caches, {at}", costs.memory_mib, unit="MiB", bound=_MEMORY_MIB, n=1),
        report.observed(f"peak memory of the process, {at}", costs.peak_mib, unit="MiB", n=1),
    ]


def _flatness(costs: Sequence[Costs]) -> list[report.Figure]:
    """What one event costs must not grow with the number of nodes."""
    fewest, most = costs[0], costs[-1]
    named = {
        "node event": (fewest.node_event_ms, most.node_event_ms),
        "pod event": (fewest.pod_event_ms, most.pod_event_ms),
    }
    bound = _FLAT * most.size / fewest.size
    return [
        report.at_most(
            f"{what}: {most.size} nodes over {fewest.size}",
            ours / theirs,
            unit="x",
            bound=bound,
            n=_EVENTS,
            peer=report.against(f"{fewest.size} nodes, CPU ms", theirs, ours=ours),
        )
        for what, (theirs, ours) in named.items()
    ]

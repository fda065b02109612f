"""Process time of the syncer for a poll, a cordon, many drains and an outage, at several numbers of nodes.

What is measured is `syncer.term.Term` with all its rooms. The polls are made by hand, one after the other, and each is
over when the process has nothing left to do.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import msgspec
import structlog

from sunkpy.runtime.process import Process
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import NodeCache, Slurm
from sunkpy.slurm.errors import SlurmError
from sunkpy.syncer.metrics import SyncerMetrics
from sunkpy.syncer.settings import SyncerSettings
from sunkpy.syncer.term import Term
from tests.bench import report
from tests.bench.mirror.sides import CLUSTER, NAMESPACE, Costs, KubeSide, SlurmSide, name_of
from tests.polling import until

SIZES = (500, 1_000, 5_000, 10_000)
QUICK_SIZES = (500, 1_000)
JOB_STARTS = 20
DRAINS = 1_000
_POLLS = 5
_NEVER_S = 1e6
_QUIET_S, _QUIET_SHARE = 0.1, 0.05
_QUIET_LOOKS = 4
_REST_S = 0.3
_TICK_S = 0.005
_PATIENCE_S = 1800.0
_MIB = 2**20
MACHINE = "two shared cores"


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Of one thing that happened: our process time, the longest hold of the loop, what was written and asked."""

    cpu_s: float
    held_s: float
    patches: int
    asked: dict[str, int]


class Ticker:
    """The most process time that the loop's thread used between two turns: how long others had to wait for it."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self.longest_s = 0.0

    async def run(self) -> None:
        while True:
            before_s, spent_s = time.thread_time(), self._costs.spent_s
            await asyncio.sleep(_TICK_S)
            used_s = time.thread_time() - before_s - (self._costs.spent_s - spent_s)
            self.longest_s = max(self.longest_s, used_s)


class Bench:
    """One syncer over both sides."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.clock_ahead_s = 0.0
        self.doubles_mib = 0.0
        self._costs = Costs()
        self.slurm = SlurmSide(size, self._costs)
        self.kube = KubeSide(size, self._costs)
        settings = SyncerSettings(
            cluster=CLUSTER,
            namespace=NAMESPACE,
            slurm=SlurmSettings(url="http://slurmrestd", jwt_key_file="jwt.key"),
            poll_seconds=_NEVER_S,
        )
        client = Slurm(self.slurm)
        process = Process("syncer", settings)
        self.nodes = NodeCache(client, poll_s=_NEVER_S, clock=self.clock)
        self._ticker = Ticker(self._costs)
        self._term = Term(
            kube=self.kube,
            slurm=client,
            nodes=self.nodes,
            settings=settings,
            process=process,
            metrics=SyncerMetrics(process.registry),
            clock=self.clock,
        )

    def clock(self) -> float:
        """Monotonic, and moved on by who does not want to wait."""
        return time.monotonic() + self.clock_ahead_s

    async def run(self, body: Callable[[Bench], Awaitable[list[report.Figure]]]) -> list[report.Figure]:
        """The syncer at work while the body measures."""
        tasks = [asyncio.ensure_future(self._ticker.run()), asyncio.ensure_future(self._term.run())]
        try:
            await self._quiet()
            return await body(self)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def cost(self, happens: Callable[[], Awaitable[object]]) -> Cost:
        """Let it happen, wait for the last of what follows from it."""
        gc.collect()
        rest_share = await self._rest_share()
        self._ticker.longest_s = 0.0
        self._costs.asked.clear()
        patched, spent_s, started_s, used_s = self.kube.patched, self._costs.spent_s, time.monotonic(), _cpu_s()
        await happens()
        await self._quiet()
        rest_s = rest_share * (time.monotonic() - started_s)
        return Cost(
            cpu_s=max(0.0, _cpu_s() - used_s - rest_s - (self._costs.spent_s - spent_s)),
            held_s=self._ticker.longest_s,
            patches=self.kube.patched - patched,
            asked=dict(self._costs.asked),
        )

    async def _rest_share(self) -> float:
        """Of a core, while nothing happens: the ticker, and timers."""
        used_s = _cpu_s()
        await asyncio.sleep(_REST_S)
        return (_cpu_s() - used_s) / _REST_S

    async def _quiet(self) -> None:
        """Until next to nothing is done any more, and no request is on its way, for several looks in a row."""
        looks = 0
        while looks < _QUIET_LOOKS:
            before_s, asked = _cpu_s(), sum(self._costs.asked.values())
            await asyncio.sleep(_QUIET_S)
            is_at_rest = _cpu_s() - before_s < _QUIET_S * _QUIET_SHARE and asked == sum(self._costs.asked.values())
            looks = looks + 1 if is_at_rest and not self._costs.under_way else 0


def measure(*, quick: bool) -> list[report.Figure]:
    """All figures of each size, each in a process of its own: memory that is freed is seldom given back."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        return [figure for figures in pool.map(measure_one, QUICK_SIZES if quick else SIZES) for figure in figures]


def measure_one(size: int) -> list[report.Figure]:
    """All figures of a size."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    return asyncio.run(_measure_one(size))


async def _measure_one(size: int) -> list[report.Figure]:
    bare_mib = _resident_mib()
    bench = Bench(size)
    bench.doubles_mib = _resident_mib() - bare_mib
    return await bench.run(_figures)


async def _figures(bench: Bench) -> list[report.Figure]:
    settled_mib = _resident_mib() - bench.doubles_mib
    return [
        *await _idle(bench),
        *await _busy(bench),
        *await _outage(bench),
        *await _cordon(bench),
        *await _drains(bench),
        _memory(bench, "settled", settled_mib),
        _memory(bench, "at the end", _resident_mib() - bench.doubles_mib),
    ]


async def _idle(bench: Bench) -> list[report.Figure]:
    costs = [await bench.cost(bench.nodes.refresh) for _ in range(_POLLS)]
    full = await bench.cost(lambda: bench.nodes.refresh(full=True))
    return [
        _cpu(bench, "poll, nothing changed", costs),
        _cpu(bench, "poll of all nodes, nothing changed", [full]),
        _held(bench, "poll of all nodes, nothing changed", [full]),
    ]


async def _busy(bench: Bench) -> list[report.Figure]:
    """Each poll sees another twenty jobs start, and those before the last poll end."""
    costs = []
    for poll in range(_POLLS):
        for number in range(JOB_STARTS):
            if poll:
                bench.slurm.set_busy(name_of((poll - 1) * JOB_STARTS + number), is_busy=False)
            bench.slurm.set_busy(name_of(poll * JOB_STARTS + number), is_busy=True)
        bench.clock_ahead_s += 1.0
        costs.append(await bench.cost(bench.nodes.refresh))
    writes = sum(cost.patches for cost in costs) / len(costs)
    name = f"{bench.size} nodes: writes to pods per poll, {JOB_STARTS} job starts and ends"
    return [
        _cpu(bench, f"poll, {JOB_STARTS} job starts", costs),
        _held(bench, f"poll, {JOB_STARTS} job starts", costs),
        report.observed(name, writes, unit="", n=len(costs)),
    ]


async def _cordon(bench: Bench) -> list[report.Figure]:
    drained_after_s = 0.0

    async def cordon() -> None:
        nonlocal drained_after_s
        drained_after_s = await _drained_after_s(bench, [name_of(0)], "disk")

    cost = await bench.cost(cordon)
    label = f"{bench.size} nodes: cordon to drain"
    return [
        report.at_most(label, drained_after_s, unit="s", bound=0.5, n=1, limited_by=MACHINE),
        _cpu(bench, "one cordon", [cost]),
    ]


async def _drained_after_s(bench: Bench, wanted: list[str], why: str) -> float:
    async def all_drained() -> bool:
        return all(map(bench.slurm.is_drained, wanted))

    began_s = time.monotonic()
    for name in wanted:
        bench.kube.annotate(name, cordon=why)
    await until(all_drained, timeout_s=_PATIENCE_S, what="all drained", every_s=0.02)
    return time.monotonic() - began_s


async def _drains(bench: Bench) -> list[report.Figure]:
    many = min(DRAINS, bench.size // 2)
    wanted = [name_of(number) for number in range(bench.size - many, bench.size)]
    drained_after_s = 0.0

    async def cordon() -> None:
        nonlocal drained_after_s
        drained_after_s = await _drained_after_s(bench, wanted, "rack")

    cost = await bench.cost(cordon)
    calls = sum(count for what, count in cost.asked.items() if what.startswith("POST"))
    reads = sum(count for what, count in cost.asked.items() if what.startswith("GET"))
    label = f"{bench.size} nodes: {many} drains"
    return [
        report.at_most(f"{label}, until all are set", drained_after_s, unit="s", bound=5, n=1, limited_by=MACHINE),
        report.observed(f"{label}, calls that write", calls, unit="", n=1),
        report.observed(f"{label}, calls that read", reads, unit="", n=1),
        _cpu(bench, f"{many} drains", [cost]),
        _held(bench, f"{many} drains", [cost]),
    ]


async def _outage(bench: Bench) -> list[report.Figure]:
    """Slurm is not read for half a minute, and then is."""
    bench.slurm.is_down = True

    async def fail() -> None:
        bench.clock_ahead_s += 60.0
        with suppress(SlurmError):
            await bench.nodes.refresh()
        await asyncio.sleep(2.5)  # the age is looked at each second

    async def recover() -> None:
        bench.slurm.is_down = False
        await bench.nodes.refresh()

    costs = [await bench.cost(fail), await bench.cost(recover)]
    writes = sum(cost.patches for cost in costs)
    return [
        report.observed(f"{bench.size} nodes: writes to pods by an outage of Slurm", writes, unit="", n=1),
        _cpu(bench, "outage of Slurm and its end", costs),
        _held(bench, "outage of Slurm and its end", costs),
    ]


def _memory(bench: Bench, when: str, resident_mib: float) -> report.Figure:
    """Without the doubles, of which the later growth is ours to bear."""
    label = f"{bench.size} nodes: resident memory, {when}"
    return report.at_most(label, resident_mib, unit="MiB", bound=400, n=1, limited_by=MACHINE)


def _cpu(bench: Bench, what: str, costs: list[Cost]) -> report.Figure:
    spent_ms = report.median([cost.cpu_s * 1000 for cost in costs])
    return report.observed(f"{bench.size} nodes: cpu of {what}", spent_ms, unit="ms", n=len(costs))


def _held(bench: Bench, what: str, costs: list[Cost]) -> report.Figure:
    held_ms = max(cost.held_s * 1000 for cost in costs)
    label = f"{bench.size} nodes: loop held by {what}"
    return report.at_most(label, held_ms, unit="ms", bound=50, n=len(costs), limited_by=MACHINE)


def _cpu_s() -> float:
    return time.process_time()


def _resident_mib() -> float:
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024 / _MIB

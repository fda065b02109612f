"""Slurm's metrics at 10,000 nodes and 50,000 jobs: how long a scrape takes, and how long the syncer's event loop is
held.

Slurm is a double in a process of its own, which sends only the fields that are read. A real slurmrestd also takes some
3 ms for each job that is read, which is not in these times.
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import structlog

from sunkpy.runtime.process import Process, collecting_often, settle_garbage_collector
from sunkpy.runtime.settings import HttpSettings, SlurmSettings
from sunkpy.slurm import NodeCache, Slurm
from sunkpy.syncer.figures import FigureFeed
from sunkpy.syncer.metrics import NodeCollector
from sunkpy.syncer.settings import FigureSettings, SyncerSettings
from tests.bench import report
from tests.bench.asked import Asked
from tests.bench.census import status_mib
from tests.doubles.serving import serving
from tests.doubles.slurmrestd import Slurmrestd
from tests.page_ground import number

_SCRAPE_S, _HELD_S, _RSS_MIB = 1.0, 0.05, 400
_SCRAPES = 5
_WAITING = 2_500
_TICK_S = 0.005
_MIB = 2**20


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes, with eight GPUs each, jobs and users there are. A fifth of the jobs run, on a node each; 2,000
    wait; the others have ended.

    Every second node is drained. Each user is in ten of 50 accounts.
    """

    nodes: int = 10_000
    jobs: int = 50_000
    users: int = 500


class Clock:
    """The monotonic clock, set forward by `leap_s`."""

    leap_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.leap_s


def measure(asked: Asked) -> list[report.Figure]:
    sizes = Sizes(nodes=500, jobs=2_000) if asked.quick else Sizes()
    with TemporaryDirectory() as folder, _slurm(sizes) as port:
        key = Path(folder) / "jwt.key"
        key.write_bytes(b"k" * 32)
        return asyncio.run(_measure(sizes, f"http://127.0.0.1:{port}", key))


async def _measure(sizes: Sizes, url: str, key: Path) -> list[report.Figure]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    slurm_settings = SlurmSettings(url=url, version="v0.0.45", jwt_key_file=str(key))
    settings = SyncerSettings(cluster="c1", slurm=slurm_settings, http=HttpSettings(port=0))
    process, slurm = Process("syncer", settings), Slurm.connect(slurm_settings)
    nodes = NodeCache(slurm)
    clock = Clock()
    settled = FigureSettings(job_reads=sizes.jobs)
    feed = FigureFeed(slurm, nodes, settled, scheduler_user="k8s", clock=clock)
    process.registry.register(NodeCollector(nodes))
    process.serve_figures(lambda: feed.text)
    runner = await process.serve()
    port = next(address[1] for address in runner.addresses if len(address) == 2)
    try:
        await nodes.refresh()
        started_s = time.monotonic()
        await feed.refresh()
        first_s = time.monotonic() - started_s
        settle_garbage_collector()
        async with collecting_often():
            again = await _again(sizes, feed, clock, port)
        return [*again, report.observed("first read", first_s, n=sizes.jobs)]
    finally:
        await runner.cleanup()
        await slurm.close()


async def _again(sizes: Sizes, feed: FigureFeed, clock: Clock, port: int) -> list[report.Figure]:
    """Time later reads, in which no job has changed: waiting jobs and fair share are read again, each with a scrape."""
    holds: list[float] = []
    ticker = asyncio.ensure_future(_tick(holds))
    turns, scrapes, size = [], [], 0
    for _ in range(_SCRAPES):
        clock.leap_s += 60
        started_s = time.monotonic()
        await feed.refresh()
        turns.append(time.monotonic() - started_s)
        took_s, size = await asyncio.to_thread(_scrape, port)
        scrapes.append(took_s)
    ticker.cancel()
    with suppress(asyncio.CancelledError):
        await ticker
    at, n = f"{sizes.nodes} nodes, {sizes.jobs} jobs", len(holds)
    held, kept = max(holds), status_mib("self", "VmRSS")
    return [
        report.at_most(f"scrape, {at}", max(scrapes), bound=_SCRAPE_S, n=_SCRAPES),
        report.at_most(f"loop held, {at}", held, bound=_HELD_S, n=n),
        report.at_most(f"memory, {at}", kept, unit="MiB", bound=_RSS_MIB),
        report.observed(f"turn, {at}", max(turns), n=_SCRAPES),
        report.observed(f"page, compressed, {at}", size / _MIB, unit="MiB"),
    ]


def _scrape(port: int) -> tuple[float, int]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept-Encoding": "gzip"})
    started_s = time.monotonic()
    with urllib.request.urlopen(request, timeout=60) as answer:
        size = len(answer.read())
    return time.monotonic() - started_s, size


async def _tick(holds: list[float]) -> None:
    """Record again and again how much later than asked the event loop wakes this task."""
    while True:
        started_s = time.monotonic()
        await asyncio.sleep(_TICK_S)
        holds.append(time.monotonic() - started_s - _TICK_S)


@contextmanager
def _slurm(sizes: Sizes) -> Iterator[int]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(sizes, theirs), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def _serve(sizes: Sizes, told: Connection) -> None:
    async def until_ended() -> None:
        async with serving(_double(sizes).app()) as port:
            told.send(port)
            await asyncio.Event().wait()

    asyncio.run(until_ended())


def _double(sizes: Sizes) -> Slurmrestd:
    slurm = Slurmrestd()
    slurm.configured["low"] = f"n[0-{sizes.nodes - 1}]"
    slurm.statistics = {"server_thread_count": 1, "req_time": number(1)}
    tres = {"tres": {"usage": [{"name": "gres/gpu", "value": 1.0}] * 27}}  # 2 KB that the syncer does not read
    users = ((f"u{at % sizes.users}", f"a{at % 49}") for at in range(10 * sizes.users))
    slurm.shares = [{"name": name, "parent": account, "type": ["USER"], **tres} for name, account in users]
    for at in range(sizes.nodes):
        devices = [f"nvidia{index} GPU-{at:08x}-{index} 0000:3b:0{index}.0" for index in range(8)]
        state = ("ALLOCATED", "DRAIN") if at % 2 else ("ALLOCATED",)
        slurm.put(f"n{at}", *state, cpus=64, gres="gpu:h100:8", extra=json.dumps({"gpu": devices}))
    for at in range(sizes.jobs):
        slurm.jobs[at] = _job(at)
    return slurm


def _job(at: int) -> dict[str, object]:
    state = "RUNNING" if at % 5 == 0 else "PENDING" if at < _WAITING else "COMPLETED"
    job: dict[str, object] = {
        "job_id": at, "job_state": [state], "user_name": f"u{at % 500}", "account": f"a{at % 50}", "partition": "low",
        "state_reason": "Priority", "eligible_time": number(1000), "start_time": number(1001 + at),
        "nodes": f"n{at // 5}",
    }  # fmt: skip
    if state == "RUNNING":
        allocation = {"nodes": {"allocation": [{"name": job["nodes"]}]}}
        job |= {"cpus": number(8), "tres_alloc_str": "cpu=8,mem=4G,gres/gpu=8", "job_resources": allocation}
        job["gres_detail"] = ["gpu:h100:8(IDX:0-7)"]
    return job

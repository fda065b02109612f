"""The page in Chromium at 1,000 nodes and 5,000 jobs: how fast it appears, and what an update costs; and the commands
at this size.

Doubles of the apiserver and slurmrestd run in the process that serves the page; the browser is another process. Each
update changes some twenty nodes and jobs, as in some seconds of a busy pool.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import aiohttp
import msgspec
import structlog

from tests.bench import commands, report
from tests.bench.asked import Asked
from tests.browser import Page, chromium
from tests.doubles.serving import Changes
from tests.page_ground import KEY, Pool, Shown, page_of

_PAINT_S: Final = 1.0
_UPDATE_S: Final = 0.05
_MINUTE_MIB: Final = 2.0
_LOADS: Final = 5
_MOVED: Final = 20
_MIB: Final = 2**20
_IDLE_S: Final = 5.0
_DRAINED: Final = "document.querySelectorAll('#map a.drained').length"
_DRAWN: Final = (
    "new Promise((drawn) => new PerformanceObserver((_, heard) => { heard.disconnect(); "
    "requestAnimationFrame(() => setTimeout(drawn)); }).observe({entryTypes: ['measure']}))"
)


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    nodes: int = 1_000
    jobs: int = 5_000
    updates: int = 5
    stays_s: float = 60.0


def measure(asked: Asked) -> list[report.Figure]:
    sizes = Sizes(nodes=100, jobs=500, updates=3, stays_s=10.0) if asked.quick else Sizes()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    return asyncio.run(_measure(sizes))


async def _measure(sizes: Sizes) -> list[report.Figure]:
    of_commands = await commands.measure(nodes=sizes.nodes, jobs=sizes.jobs)
    pool = Pool(nodes=sizes.nodes, jobs=sizes.jobs)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for name in ("page", "browser"):
            (Path(folder) / name).mkdir()
        async with AsyncExitStack() as stack:
            shown = await stack.enter_async_context(page_of(pool, Path(folder) / "page", every_s=5.0))
            await _watch(stack, shown)  # a first viewer, so that the page already reads the cluster
            page = await stack.enter_async_context(chromium(Path(folder) / "browser"))
            first = await _first(page, shown, sizes)
            updates = await _updates(page, pool, sizes)
            return [*of_commands, *first, *updates]


async def _first(page: Page, shown: Shown, sizes: Sizes) -> list[report.Figure]:
    at = f"{sizes.nodes} nodes, {sizes.jobs} jobs"
    painted, there = list[float](), list[float]()
    for number in range(_LOADS):
        await page.open(f"{shown.url}/?{number}#key={KEY}")
        for mark in ("shown", "first-contentful-paint"):  # a busy browser reports the paint later
            await page.until(f"performance.getEntriesByName('{mark}').length")
        painted.append(await page.run("performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000"))
        there.append(await page.run("performance.getEntriesByName('shown')[0].startTime / 1000"))
    first, drawn, n = report.median(painted), report.median(there), _LOADS
    return [
        report.at_most(f"first paint, {at}", first, bound=_PAINT_S, n=n),
        report.at_most(f"all nodes drawn, {at}", drawn, bound=_PAINT_S, n=n),
    ]


async def _updates(page: Page, pool: Pool, sizes: Sizes) -> list[report.Figure]:
    """Time updates for a minute, by the processor time of the page's main thread: the clock would count other
    processes, too. What the page uses without a change, as for the clock in its head, is subtracted.
    """
    began_s, idle = time.monotonic(), await _share(page, asyncio.sleep(_IDLE_S))
    spent = []
    for number in range(1, sizes.updates + 1):
        took_s, busy_s = await _spent(page, _drawn(page, pool, number))
        spent.append(busy_s - idle * took_s)
    await asyncio.sleep(max(0.0, sizes.stays_s - (time.monotonic() - began_s)))
    took = await page.run("performance.getEntriesByName('update').map((each) => each.duration)")
    n = sizes.updates
    return [
        report.at_most("update, main thread", max(spent), bound=_UPDATE_S, n=n, limited_by="rows drawn"),
        report.observed("update, its script by the clock", max(took) / 1e3, n=n),
        report.at_most(
            "over the wire, first minute", page.received / _MIB, unit="MiB", bound=_MINUTE_MIB, limited_by="rows"
        ),
    ]


async def _share(page: Page, wait: Awaitable[object]) -> float:
    """Return the share of the time until `wait` is done that the page's main thread works."""
    took_s, busy_s = await _spent(page, wait)
    return busy_s / took_s


async def _spent(page: Page, wait: Awaitable[object]) -> tuple[float, float]:
    started_s, before_s = time.monotonic(), await page.busy_s()
    await wait
    return time.monotonic() - started_s, await page.busy_s() - before_s


async def _drawn(page: Page, pool: Pool, number: int) -> None:
    """Change the pool, and wait until the page shows it. Messages without a change may come in between."""
    seen = before = await page.run(_DRAINED)
    move(pool, number)
    while seen == before:
        await page.run(_DRAWN)
        seen = await page.run(_DRAINED)


def move(pool: Pool, number: int) -> None:
    """Change the pool: jobs end and begin, a node is drained, and waiting jobs move up."""
    running = [job for job in pool.slurm.jobs.values() if job["job_state"] == ["RUNNING"]][: _MOVED // 2]
    waiting = [job for job in pool.slurm.jobs.values() if job["job_state"] == ["PENDING"]][: _MOVED // 2]
    for old, new in zip(running, waiting, strict=True):
        pool.slurm.set_job(old["job_id"], "COMPLETED")
        taken = {key: old[key] for key in ("nodes", "gres_detail", "job_resources", "tres_alloc_str")}
        pool.slurm.set_job(new["job_id"], "RUNNING", start_time=pool.seconds(0), **taken)
    pool.slurm.put(pool.free[number], "IDLE", "DRAIN", reason=f"fan {number}")


async def _watch(stack: AsyncExitStack, shown: Shown) -> None:
    """Add a viewer that reads all that the page sends."""

    async def read(session: aiohttp.ClientSession) -> None:
        async with session.get("/api/page", headers=key) as answer:
            await answer.read()
        async with session.get("/api/stream", headers=key) as stream:
            async for _ in stream.content:
                pass

    key = {"Authorization": f"Bearer {KEY}"}
    timeout = aiohttp.ClientTimeout(total=None)
    session = await stack.enter_async_context(aiohttp.ClientSession(shown.url, timeout=timeout))
    stack.callback(asyncio.ensure_future(read(session)).cancel)
    await Changes().until(lambda: shown.feed.viewers >= 1, within_s=60)

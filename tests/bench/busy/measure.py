"""All figures of a busy queue, and how much of slurmctld's processor time backfill takes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import click
import msgspec

from demo.slurm_text import parse_oneliner
from sunkpy.core.model.states import JobId
from tests.bench import report
from tests.bench.asked import Asked
from tests.bench.busy.sides import DOORS, Side, chart_parameters, queue_more, real, simulated, take_nodes, time_door
from tests.bench.clusters import idle_demo
from tests.bench.ground import control_plane
from tests.polling import until

SLURMS_OWN: Sequence[str] = ()
_MEDIAN_S, _P95_S, _SHARE = 2.0, 5.0, 0.1
_PLANNED_S = 60.0
"""The accuracy in seconds with which Slurm plans starts (bf_resolution)."""
_PAUSE_S = 2.0
_FIRST_CYCLE_S = 35.0


class Rounds(msgspec.Struct, frozen=True, kw_only=True):
    """`queues`: numbers of queued jobs, one after another. `ours`, `theirs`: how often each door is measured with
    the chart's parameters and with Slurm's defaults. `nodes`: how many simulated nodes.
    """

    queues: tuple[int, ...] = (20, 1_000, 10_000)
    ours: int = 15
    theirs: int = 2
    nodes: int = 500


QUICK = Rounds(queues=(20, 1_000), ours=4, theirs=1, nodes=100)


class Behind(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured behind one queue: seconds to a start by door, backfill's share of a core and mean cycle."""

    took_s: Mapping[str, Sequence[float]]
    share: float
    cycle_s: float


def measure(asked: Asked) -> list[report.Figure]:
    rounds = QUICK if asked.quick else Rounds()
    figures: list[report.Figure] = []
    if asked.only != "real":
        with control_plane("busy") as plane:
            figures += asyncio.run(_measure(simulated(plane, rounds.nodes), rounds))
    if asked.only != "simulated":
        figures += asyncio.run(_measure(real(idle_demo()), rounds))
    return figures


async def _measure(one: AbstractAsyncContextManager[Side], rounds: Rounds) -> list[report.Figure]:
    async with one as side:
        return await _behind_queues(side, rounds)


async def _behind_queues(side: Side, rounds: Rounds) -> list[report.Figure]:
    figures: list[report.Figure] = []
    ours = chart_parameters()
    await side.use(ours)
    await take_nodes(side)
    first, waiting = JobId(0), 0
    for queue in rounds.queues:
        made = await queue_more(side, queue - waiting)
        first, waiting = first or made, queue
        planned = await _planned(side, first)
        behind = await _behind(side, f"ours-{queue}", rounds.ours)
        moved_s = await _planned(side, first) - planned
        await side.use(SLURMS_OWN)
        theirs = await _behind(side, f"stock-{queue}", rounds.theirs)
        await side.use(ours)
        figures += _figures(f"{side.name}, {queue} jobs wait", behind, theirs, moved_s)
        report.save("busy", figures)
    return figures


async def _behind(side: Side, name: str, rounds: int) -> Behind:
    """Time small jobs one after another through each door, at random moments of a backfill cycle."""
    await asyncio.to_thread(side.admin, "sdiag", "--reset")
    began_s, used_s = time.monotonic(), _backfill_s(side)
    took_s: dict[str, list[float]] = {door: [] for door in DOORS}
    for number in range(rounds):
        for door in DOORS:
            await asyncio.sleep(random.uniform(0, _PAUSE_S))
            took_s[door].append(await time_door(side, door, f"busy-{name}-{door}-{number}"))
    shown = (f"{door} {' '.join(f'{took:.1f}' for took in took_s[door])}" for door in DOORS)
    click.echo(f"busy: {side.name}, {name}: {', '.join(shown)}; load {os.getloadavg()[0]:.1f}")
    share = (_backfill_s(side) - used_s) / (time.monotonic() - began_s)
    cycle_s = cycle_mean_s(await asyncio.to_thread(side.admin, "sdiag"))
    return Behind(took_s=took_s, share=share, cycle_s=cycle_s)


def _backfill_s(side: Side) -> float:
    """Return the processor seconds of slurmctld's backfill thread (`bckfl`) so far."""
    used_ns = 0
    for pid in side.slurmctld():
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                if (thread / "comm").read_text().strip() == "bckfl":
                    used_ns += int((thread / "schedstat").read_text().split()[0])
    return used_ns / 1e9


def cycle_mean_s(sdiag: str) -> float:
    """Return the mean seconds of backfill's cycles since the last reset, without its pauses; 0 if there was none."""
    found = re.search(r"Mean cycle:\s+(\d+)", sdiag.partition("Backfilling stats")[2])
    return int(found[1]) / 1e6 if found else 0.0


async def _planned(side: Side, job: JobId) -> float:
    """Return when Slurm plans to start the first queued job, in seconds since the epoch."""
    found: list[float] = []

    async def is_planned() -> bool:
        said = await asyncio.to_thread(side.admin, "scontrol", "show", "job", "--oneliner", str(job))
        start = parse_oneliner(said.splitlines()[0]).get("StartTime", "Unknown")
        with contextlib.suppress(ValueError):
            found.append(time.mktime(time.strptime(start, "%Y-%m-%dT%H:%M:%S")))
        return bool(found)

    await until(is_planned, timeout_s=_FIRST_CYCLE_S, what=f"job {job} has a planned start")
    return found[0]


def _figures(where: str, ours: Behind, theirs: Behind, moved_s: float) -> list[report.Figure]:
    n = len(ours.took_s[DOORS[0]])
    stock, bounds = "Slurm's defaults", (_MEDIAN_S, _P95_S)
    share = report.against(stock, theirs.share, ours=ours.share)
    cycle = report.against(stock, theirs.cycle_s, ours=ours.cycle_s)
    figures: list[report.Figure] = []
    for door in DOORS:
        peer = (stock, theirs.took_s[door])
        figures += report.spread(f"{where}: {door}", ours.took_s[door], bounds=bounds, peer=peer)
    return [
        *figures,
        report.at_most(
            f"{where}: backfill's processor time", ours.share, unit="of a core", bound=_SHARE, n=n, peer=share
        ),
        report.observed(f"{where}: sdiag's mean cycle of backfill", ours.cycle_s, n=n, peer=cycle),
        report.at_most(f"{where}: the first that waits is planned later by", moved_s, bound=_PLANNED_S),
    ]

"""Run one bench, or all: `python -m tests.bench latency`.

latency, abuse, chaos, outage and health run on the cluster of `make demo`. gitops, upgrade, ha, devices, machines and
families make a cluster of their own. All others need no cluster; busy has a part with the demo cluster and a part
without one.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Final

import click
import msgspec

from tests.bench import (
    containers,
    ha,
    health,
    latency,
    machines,
    metrics,
    names,
    outage,
    page,
    report,
    scale,
    takeover,
    topology,
)
from tests.bench.abuse import measure as abuse
from tests.bench.asked import Asked
from tests.bench.burst import measure as burst
from tests.bench.busy import measure as busy
from tests.bench.chaos import run as chaos
from tests.bench.chaos.judge import Violation
from tests.bench.chaos.run import Outcome
from tests.bench.devices import measure as devices
from tests.bench.gitops import measure as gitops
from tests.bench.growth import measure as growth
from tests.bench.neighbours import measure as neighbours
from tests.bench.people import measure as people
from tests.bench.upgrade import measure as upgrade
from tests.families import figures as families

BENCHES: Final[dict[str, Callable[[Asked], Outcome | Sequence[report.Figure]]]] = {
    "busy": busy.measure,
    "burst": burst.measure,
    "neighbours": neighbours.measure,
    "takeover": takeover.measure,
    "people": people.measure,
    "containers": containers.measure,
    "metrics": metrics.measure,
    "names": names.measure,
    "page": page.measure,
    "scale": scale.measure,
    "topology": topology.measure,
    "growth": growth.measure,
    "devices": devices.measure,
    "gitops": gitops.measure,
    "upgrade": upgrade.measure,
    "ha": ha.measure,
    "latency": latency.measure,
    "abuse": abuse.measure,
    "chaos": chaos.measure,
    "outage": outage.measure,
    "health": health.measure,
    "machines": machines.measure,
    "families": families.measure,
}
_SMALLEST: Final = 100
NOT_OF_ALL: Final = ("machines", "families", "growth")
"""Benches that `all` leaves out: they need a virtual machine, hours, or an autoscaler that has to be built first."""


def read_sizes(_: click.Context, __: click.Parameter, text: str | None) -> tuple[int, ...]:
    """Return the numbers in a text such as `500,1000`. Each sample needs a node of its own."""
    sizes = text.split(",") if text else []
    if not all(size.isdecimal() and int(size) >= _SMALLEST for size in sizes):
        raise click.BadParameter(f"numbers of at least {_SMALLEST} nodes, or samples would meet")
    return tuple(map(int, sizes))


@click.command()
@click.argument("name", type=click.Choice(["all", *BENCHES]), default="all")
@click.option(
    "--quick",
    is_flag=True,
    help="A few rounds, five minutes of chaos, six of an outage, less load, a few families, or small sizes.",
)
@click.option(
    "--only",
    default="",
    help="families: names like lws,kueue/job; busy: simulated or real; outage: scheduler, slurmrestd or apiserver;"
    " devices: plugin; gitops: flux.",
)
@click.option(
    "--sizes", callback=read_sizes, help="scale, topology: numbers of nodes, such as 500,1000; else what fits."
)
@click.option("--minutes", default=30.0, show_default=True, help="chaos: how long.")
@click.option("--seed", default=1, show_default=True, help="chaos, outage, upgrade, devices: makes the same.")
@click.option("--strict", is_flag=True, help="Fail when a figure does not hold.")
def main(name: str, *, strict: bool, **options: object) -> None:
    """Run one bench, or all, and write build/reports/<name>.json."""
    signal.signal(signal.SIGTERM, _end)
    asked = msgspec.convert(options, Asked)
    for each in [name] if name != "all" else [each for each in BENCHES if each not in NOT_OF_ALL]:
        found = BENCHES[each](asked)
        outcome = found if isinstance(found, Outcome) else Outcome(found)
        report.write("gitops-flux" if (each, asked.only) == ("gitops", "flux") else each, outcome.figures)
        if strict:
            require_all(outcome.figures, outcome.violations)


def _end(number: int, _: FrameType | None) -> None:
    """Exit by an exception, so that each `finally` takes its cluster down. Later SIGTERMs, of `make`, are ignored."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def require_all(figures: Sequence[report.Figure], violations: Sequence[Violation] = ()) -> None:
    """Raise an error with each figure that does not hold, then each violation: the end of a log is read first."""
    broken = [f"{figure.figure}: {figure.value:g}" for figure in figures if not figure.holds]
    if broken:
        lines = [f"{each.rule}: {each.text}; {'; '.join(each.evidence)}" for each in violations]
        raise click.ClickException("\n  ".join([f"does not hold: {'; '.join(broken)}", *lines]))


if __name__ == "__main__":
    main()

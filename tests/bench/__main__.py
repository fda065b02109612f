"""Run one bench, or all: `python -m tests.bench latency`, on the cluster of `make demo`; burst,
scale, takeover, people, containers, metrics and names need none, gitops, upgrade, ha, devices and
machines make their own. busy has one part with and one without."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import click

from demo import story
from demo.bring_up import bring_up, own_cluster
from tests.bench import (
    containers,
    ha,
    latency,
    machines,
    metrics,
    names,
    outage,
    page,
    report,
    scale,
    takeover,
)
from tests.bench.abuse import measure as abuse
from tests.bench.burst import measure as burst
from tests.bench.busy import measure as busy
from tests.bench.chaos import run as chaos
from tests.bench.chaos.judge import Violation
from tests.bench.devices import measure as devices
from tests.bench.gitops import measure as gitops
from tests.bench.people import measure as people
from tests.bench.scale.plan import read_sizes
from tests.bench.upgrade import measure as upgrade
from tests.families import cases
from tests.families import figures as families
from tests.families.room import bring_up_room
from tests.families.run import Outcome, run_all

QUICK_MINUTES = 5.0
OUTAGE_MINUTES, QUICK_OUTAGE_MINUTES = 20.0, 6.0
ALONE = {
    "burst": burst.measure,
    "takeover": takeover.measure,
    "people": people.measure,
    "containers": containers.measure,
    "metrics": metrics.measure,
    "names": names.measure,
    "page": page.measure,
}
"""Benches without a cluster."""


def _read_sizes(_: click.Context, __: click.Parameter, text: str | None) -> tuple[int, ...]:
    try:
        return read_sizes(text) if text else ()
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@click.argument(
    "name",
    type=click.Choice(
        [
            "all",
            "latency",
            "abuse",
            "busy",
            "chaos",
            "outage",
            "families",
            "scale",
            "gitops",
            "upgrade",
            "ha",
            "devices",
            "machines",
            *ALONE,
        ]
    ),
    default="all",
)
@click.option(
    "--quick",
    is_flag=True,
    help="A few rounds, five minutes of chaos, six of an outage, less load, a few families, or small sizes.",
)
@click.option(
    "--only",
    default="",
    help="families: names like lws,kueue/job; busy: simulated or real; devices: plugin; gitops: flux.",
)
@click.option("--sizes", callback=_read_sizes, help="scale: numbers of nodes, such as 500,1000; else what fits.")
@click.option("--minutes", default=30.0, show_default=True, help="chaos: how long.")
@click.option("--seed", default=1, show_default=True, help="chaos, outage, upgrade, devices: makes the same.")
@click.option("--since", default="", metavar="COMMIT", help="upgrade: from an earlier sunkpy, not an earlier Slurm.")
@click.option("--faults/--no-faults", default=True, help="chaos: without faults nothing may be found.")
@click.option(
    "--strict",
    is_flag=True,
    help="chaos, outage, gitops, upgrade, ha, devices, machines: fail when a figure does not hold.",
)
def main(
    name: str,
    *,
    quick: bool,
    only: str,
    sizes: tuple[int, ...],
    minutes: float,
    seed: int,
    since: str,
    faults: bool,
    strict: bool,
) -> None:
    """Measure, and write build/reports/<name>.json."""
    if name == "families":
        measure_families(quick=quick, only=only)
        return
    if name in ("all", "busy"):
        measure_busy(quick=quick, only=only)
    if name == "busy":
        return
    for alone, measure in ALONE.items():
        if name in ("all", alone):
            report.write(alone, measure(quick=quick))
    if name in ("all", "scale"):
        report.write("scale", scale.measure(quick=quick, sizes=sizes))
    suite, cluster = os.environ.get("SLURM_SUITE", "trixie"), os.environ.get("SUNKPY_CLUSTER", "sunkpy")
    if name in ("all", "devices"):
        count = devices.QUICK_ROUNDS if quick else devices.ROUNDS
        figures = devices.measure(
            suite=suite, name=cluster, count=count, seed=seed, tell=click.echo, by_plugin=only == "plugin"
        )
        write("devices", figures, strict=strict)
    if name in ("all", "gitops"):
        by_flux = only == "flux"
        figures = gitops.measure(suite=suite, name=cluster, tell=click.echo, by_flux=by_flux)
        write("gitops-flux" if by_flux else "gitops", figures, strict=strict)
    if name in ("all", "upgrade"):
        lasts = upgrade.QUICK if quick else upgrade.WHOLE
        outcome = upgrade.measure(name=cluster, seed=seed, tell=click.echo, since=since, lasts=lasts)
        write("upgrade-sunkpy" if since else "upgrade", outcome.figures, outcome.violations, strict=strict)
    if name in ("all", "ha"):
        write("ha", ha.measure(suite=suite, name=cluster, tell=click.echo), strict=strict)
    if name == "machines":  # not of all: it takes a virtual machine
        write("machines", machines.measure(suite=suite, name=cluster, tell=click.echo), strict=strict)
    if name in ALONE or name in ("scale", "gitops", "upgrade", "ha", "devices", "machines"):
        return
    rounds = latency.Rounds(start=3, handover=3, drain=3) if quick else latency.Rounds()
    stack = bring_up(suite=suite, name=cluster, nodes=3, tell=click.echo)
    story.reset(stack)
    if name in ("all", "latency"):
        report.write("latency", asyncio.run(latency.measure(stack, rounds)))
    if name in ("all", "abuse"):
        few = abuse.Rounds(each=4, replicas=60) if quick else abuse.Rounds()
        figures = asyncio.run(abuse.measure(stack, few, click.echo))
        write("abuse", figures, strict=strict)
    if name in ("latency", "abuse"):
        return
    own = own_cluster(cluster)
    if own is None:
        raise click.ClickException("chaos and outage break the apiserver: they run on a development cluster alone")
    if name in ("all", "chaos"):
        options = chaos.Options(minutes=QUICK_MINUTES if quick else minutes, seed=seed, with_faults=faults)
        outcome = asyncio.run(chaos.measure(stack, own, options, click.echo))
        write("chaos", outcome.figures, outcome.violations, strict=strict)
    if name in ("all", "outage"):
        away = QUICK_OUTAGE_MINUTES if quick else OUTAGE_MINUTES
        outcome = asyncio.run(outage.measure(stack, own, minutes=away, seed=seed, tell=click.echo))
        write("outage", outcome.figures, outcome.violations, strict=strict)


def write(name: str, figures: Sequence[report.Figure], violations: Sequence[Violation] = (), *, strict: bool) -> None:
    """Write the report; with `strict` fail when a figure does not hold."""
    report.write(name, figures)
    if strict:
        require_all(figures, violations)


def require_all(figures: Sequence[report.Figure], violations: Sequence[Violation] = ()) -> None:
    """Fail with each broken figure and each violation, which come last in a log that may be cut."""
    broken = [f"{figure.figure}: {figure.value:g}" for figure in figures if not figure.holds]
    if broken:
        lines = [f"{each.rule}: {each.text}; {'; '.join(each.evidence)}" for each in violations]
        raise click.ClickException("\n  ".join([f"does not hold: {'; '.join(broken)}", *lines]))


def measure_busy(*, quick: bool, only: str) -> None:
    """First nodes that are simulated, then the cluster."""
    rounds = busy.QUICK if quick else busy.Rounds()
    figures = [] if only == "real" else asyncio.run(busy.measure_simulated(rounds))
    if only != "simulated":
        suite, cluster = os.environ.get("SLURM_SUITE", "trixie"), os.environ.get("SUNKPY_CLUSTER", "sunkpy")
        stack = bring_up(suite=suite, name=cluster, nodes=3, tell=click.echo)
        story.reset(stack)
        figures += asyncio.run(busy.measure_real(stack, rounds))
    report.write("busy", figures)


def measure_families(*, quick: bool, only: str) -> None:
    """Manifests of all families on a cluster of its own, with room for them."""
    parts = only.split(",")
    wanted = [case for case in cases.read() if any(part in case.manifest for part in parts)]
    if quick:
        wanted = [case for case in wanted if case.manifest in cases.SMALL]
    stack, cluster = bring_up_room(click.echo)
    outcomes: list[Outcome] = []
    for outcome in run_all(stack, cluster, wanted, click.echo):
        outcomes.append(outcome)
        families.save(outcomes, wanted)  # each time: it takes an hour, and may be ended before
    report.write("families", families.figures(outcomes, wanted))


if __name__ == "__main__":
    main()

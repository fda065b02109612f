"""Run one bench, or all: `python -m tests.bench latency`. The cluster is that of `make demo`."""

from __future__ import annotations

import asyncio
import os

import click

from demo import story
from demo.bring_up import bring_up
from tests.bench import latency, report


@click.command()
@click.argument("name", type=click.Choice(["all", "latency"]), default="all")
@click.option("--quick", is_flag=True, help="A few rounds of each, to see that it works.")
def main(name: str, *, quick: bool) -> None:
    """Measure, and write build/reports/<name>.json."""
    rounds = latency.Rounds(start=3, handover=3, drain=3) if quick else latency.Rounds()
    suite, cluster = os.environ.get("SLURM_SUITE", "trixie"), os.environ.get("SUNKPY_CLUSTER", "sunkpy")
    stack = bring_up(suite=suite, name=cluster, nodes=3, tell=click.echo)
    story.reset(stack)
    if name in ("all", "latency"):
        report.write("latency", asyncio.run(latency.measure(stack, rounds)))


if __name__ == "__main__":
    main()

"""`python -m demo`: brings a cluster up and runs the demo's steps on it."""

from __future__ import annotations

import os
import sys
from functools import partial

import click
from rich.console import Console

from demo import story
from demo.bring_up import bring_up, how_to_use, take_down
from demo.report import Report, StepFailed, Tell
from demo.stack import ROOT, SUITES, Stack


@click.command()
@click.option("--suite", type=click.Choice(SUITES), default=lambda: os.environ.get("SLURM_SUITE", "trixie"))
@click.option(
    "--name", default=lambda: os.environ.get("SUNKPY_CLUSTER", "sunkpy"), help="Name of the development cluster."
)
@click.option("--nodes", default=3, show_default=True, help="Nodes of the development cluster.")
@click.option("--keep/--no-keep", default=True, show_default=True, help="Leave the cluster up at the end.")
def main(suite: str, name: str, nodes: int, keep: bool) -> None:
    """Run the demo of sunkpy on a real cluster: that of $KUBECONFIG if set, else one made on this machine.

    On your own cluster the nodes need the images: set IMAGE_REGISTRY=registry.example/sunkpy to have them pushed there,
    or load build/images/*.tar on the nodes and set SUNKPY_IMAGES_LOADED=1. kubectl and helm must be on the PATH.
    """
    console = Console(highlight=False)
    report = Report(ROOT / "build" / "reports" / "demo.json", console)
    stacks: list[Stack] = []

    def first(tell: Tell) -> str:
        stack = bring_up(suite=suite, name=name, nodes=nodes, tell=tell)
        stacks.append(stack)
        story.reset(stack)
        return f"Kubernetes with {len(stack.nodes())} nodes, images, both charts (Slurm of {suite})"

    try:
        report.run("1 cluster, images, charts", first)
        for title, step in story.STEPS:
            report.run(title, partial(step, stacks[0]))
    except StepFailed:  # the report has printed it
        console.print("The story stopped; the cluster is left as it is.", style="red")
        sys.exit(1)
    console.print(f"\nAll steps held, {report.seconds:.0f} s in all; build/reports/demo.json has the figures.\n")
    if keep:
        console.print(how_to_use(stacks[0], name=name), markup=False, soft_wrap=True)
    else:
        take_down(name)


if __name__ == "__main__":
    main()

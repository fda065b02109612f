"""A long outage only delays: no node and no job is lost, neither a pod's nor one of sbatch.

The scheduler, slurmrestd and the apiserver are away one after another, each while fifty jobs of `sbatch` wait or run
and pods come. Observer and judge are those of chaos.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence

import click
import msgspec

from demo import slurm_text
from tests.bench import report
from tests.bench.asked import Asked
from tests.bench.chaos.judge import Violation
from tests.bench.chaos.record import Record
from tests.bench.chaos.run import AGREEMENT_S, Outcome, figures, watched
from tests.bench.chaos.schedule import Door, Fault, Manner, Plan, PlannedFault, PlannedJob, plan_jobs
from tests.bench.clusters import breakable_demo, idle_demo

PARTS = ("scheduler", "slurmrestd", "apiserver")
QUEUED = 50
MINUTES, QUICK_MINUTES = 20.0, 6.0
_BEGINS_S = 60.0
_PODS_S = 300.0
"""For how many seconds of the outage pods and jobs come: all that wait must end after it."""
_BAD = frozenset({"DOWN", "DRAIN", "FAIL", "NOT_RESPONDING"})


def measure(asked: Asked) -> Outcome:
    """Run an outage of each part, or only of the part that `--only` names."""
    parts = which(asked.only)
    stack, cluster = idle_demo(), breakable_demo()
    minutes, seed = QUICK_MINUTES if asked.quick else MINUTES, asked.seed
    found: list[report.Figure] = []
    violations: list[Violation] = []
    nodes = len(stack.slurmd_pods())
    for part in parts:
        plan = make_plan(part, minutes=minutes, seed=seed, nodes=nodes)
        record, seen = asyncio.run(watched(stack, cluster, plan, name=f"outage-{part}"))
        found += named(part, [*of_nodes(record), *figures(record, seen, seed=seed)])
        violations += seen
        report.save("outage", found)  # the bench takes hours: keep what is done if somebody ends it
    return Outcome(found, violations)


def which(only: str) -> Sequence[str]:
    if only not in ("", *PARTS):
        raise click.ClickException(f"--only {only}: no outage of it is known; give one of {', '.join(PARTS)}")
    return (only,) if only else PARTS


def make_plan(part: str, *, minutes: float, seed: int, nodes: int) -> Plan:
    """Return a plan with one outage, after fifty jobs were submitted."""
    rng = random.Random(seed)
    lasts_s = minutes * 60
    fault = PlannedFault(
        number=1, at_s=_BEGINS_S, fault=Fault.APISERVER if part == "apiserver" else Fault.OUTAGE, target=part,
        lasts_s=lasts_s,
    )  # fmt: skip
    queued = [
        PlannedJob(
            number=number, at_s=5.0 + number, door=Door.SBATCH, partition=rng.choice(("low", "high")),
            manner=Manner.PROMPT, lasts_s=round(rng.uniform(5.0, 40.0), 1),
        )
        for number in range(1, QUEUED + 1)
    ]  # fmt: skip
    coming_s = _BEGINS_S + min(lasts_s, _PODS_S)
    coming = plan_jobs(rng, until_s=coming_s, nodes=nodes, are_long=False, misbehave=False)
    later = [msgspec.structs.replace(job, number=QUEUED + index) for index, job in enumerate(coming, start=1)]
    end_s = fault.ends_s
    return Plan(seed=seed, quiet_s=end_s, end_s=end_s, faults=(fault,), jobs=(*queued, *later))


def of_nodes(record: Record) -> Iterator[report.Figure]:
    """Yield figures of the Slurm nodes that were out of use during the outage, and of those that were long after it."""
    (fault,) = record.faults
    n = len(record.slurm_nodes)
    out = out_of_use(record, from_s=fault.held_s, until_s=fault.last_s)
    yield report.observed("nodes out of use during it", len(out), unit="", n=n)
    lost = out_of_use(record, from_s=fault.last_s + AGREEMENT_S, until_s=float("inf"))
    yield report.none("nodes lost", sorted(f"{node}: {reason}" for node, reason in lost.items()), n=n)


def out_of_use(record: Record, *, from_s: float, until_s: float) -> dict[str, str]:
    """Return the Slurm nodes on which nothing could start at some time in this span, each with its last reason."""
    return {
        name: node.get("Reason", "")
        for look in record.looks
        if from_s <= look.at_s <= until_s
        for name, node in look.nodes.items()
        if slurm_text.node_flags(node) & _BAD
    }


def named(part: str, of_part: Sequence[report.Figure]) -> list[report.Figure]:
    return [msgspec.structs.replace(figure, figure=f"no {part}: {figure.figure}") for figure in of_part]

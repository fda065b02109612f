"""From one version of Slurm to the next, by one `helm upgrade` of all its images, while pods and sbatch jobs run.

The bench makes its own cluster. Observer and judge are those of chaos. One job runs all the time, and a person has
sessions open. slurmctld's state and slurmdbd's records stay those of the old version.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click
import msgspec

from demo import story
from demo.bring_up import GPUS_PER_NODE, install, read_images, slurm_values
from demo.stack import SUITES, Stack
from devcluster import Cluster
from devcluster.waiting import NotYet, wait
from sunkpy.core import names
from tests.bench import report
from tests.bench.asked import Asked
from tests.bench.chaos.record import Record
from tests.bench.chaos.run import Outcome, figures, watched
from tests.bench.chaos.schedule import Door, Fault, Manner, Plan, PlannedFault, PlannedJob, plan_jobs
from tests.bench.clusters import own_stack, recorded_once
from tests.bench.upgrade import sessions

NODES: Final = 4
"""The number of nodes. One of them is for the job of the person."""


class Lasts(NamedTuple):
    """Times in seconds. `begins_s`: when the upgrade begins. `load_s`: for how long pods and jobs come; helm and the
    rolls of nodes end within it. `job_s`: how long the person's job and the long job run.
    """

    begins_s: float = 60.0
    load_s: float = 300.0
    job_s: float = 240.0


WHOLE: Final = Lasts()
QUICK: Final = Lasts(begins_s=30.0, load_s=150.0, job_s=120.0)
_SILENT_S: Final = 120.0
_ROLLED_S: Final = 300.0


def measure(asked: Asked) -> Outcome:
    seed, lasts, (_, new) = asked.seed, QUICK if asked.quick else WHOLE, SUITES

    def up(cluster: Cluster, _: Sequence[Path]) -> None:
        cluster.up(NODES, gpus=GPUS_PER_NODE)

    with own_stack("upgrade", up, suites=SUITES) as (stack, cluster):
        install(stack, click.echo, slurm={**slurm_values(stack), **sessions.VALUES})
        plan = make_plan(suite=new, seed=seed, nodes=NODES - 1, lasts=lasts)
        with sessions.opened(stack, cluster.layout.volumes, job_s=lasts.job_s) as open_:
            record, violations = asyncio.run(watched(stack, cluster, plan, name="upgrade"))
            wrong = open_.ended_wrongly(upgrade_s=record.faults[0].begun_s, end_s=time.time())
        what = "sessions ended where the table of restarts does not say so"
        sessions_ = report.none(what, wrong, n=3)
        found = [
            *of_upgrade(record),
            sessions_,
            recorded_once(stack, record.lines),
            _rolled(stack, record, read_images(new)["slurmd"].ref),
        ]
        return Outcome([*found, *figures(record, violations, seed=seed, is_quick=asked.quick)], violations)


def make_plan(*, suite: str, seed: int, nodes: int, lasts: Lasts) -> Plan:
    """Return a plan with one upgrade, a job that runs before and after it, and others that come and go."""
    rng = random.Random(seed)
    fault = PlannedFault(number=1, at_s=lasts.begins_s, fault=Fault.UPGRADE, target=suite)
    long = PlannedJob(number=1, at_s=1.0, door=Door.SBATCH, partition="high", manner=Manner.PROMPT, lasts_s=lasts.job_s)
    coming = plan_jobs(rng, until_s=lasts.load_s, nodes=nodes, are_long=False, misbehave=False)
    jobs = (long, *(msgspec.structs.replace(job, number=number) for number, job in enumerate(coming, start=2)))
    return Plan(seed=seed, quiet_s=lasts.load_s, end_s=lasts.load_s, faults=(fault,), jobs=jobs)


def of_upgrade(record: Record) -> Iterator[report.Figure]:
    """Yield figures of how long helm took, how long slurmctld was away, and whether the long job ended in order."""
    (fault,) = record.faults
    yield report.observed("helm upgrade of all images", fault.held_s - fault.begun_s)
    looks = [look.at_s for look in record.looks if look.nodes]
    silent_s = max((later - at for at, later in itertools.pairwise(looks)), default=float("inf"))
    yield report.at_most("longest time without an answer of slurmctld", silent_s, bound=_SILENT_S)
    long = record.jobs[0].name
    said = [(line.what, line.run) for line in record.lines.get(long, ())]
    broken = [] if said == [("start", 0), ("end", 0)] else [str(said)]
    yield report.none("jobs that did not run through", broken)


def _rolled(stack: Stack, record: Record, new: str) -> report.Figure:
    """Wait until all slurmd pods have the new image. Return a figure of how long after the last job that was."""
    which = ("-n", stack.namespace, "-l", f"{names.LABEL_ROLE}=compute")
    image = 'jsonpath={.items[*].spec.containers[?(@.name=="slurmd")].image}'

    def are_new() -> bool:
        found = stack.kubectl("get", "pods", *which, "-o", image).split()
        if len(found) != NODES or set(found) != {new}:
            raise NotYet(str(found))
        return all(story.is_idle(node) for node in stack.slurm_nodes().values())

    wait(are_new, timeout_s=_ROLLED_S * 2, what="slurmd of the new version on each node")
    ended_s = max(line.at_s for lines in record.lines.values() for line in lines)
    return report.at_most("last job to new slurmd on all nodes", time.time() - ended_s, bound=_ROLLED_S, n=NODES)

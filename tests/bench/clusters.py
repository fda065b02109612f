"""The clusters of benches: that of `make demo`, or one that a bench makes for itself."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from demo import bring_up, story
from demo.stack import Stack
from devcluster import Cluster
from devcluster.waiting import NeverSo, wait_until_none
from tests.bench import report
from tests.bench.asked import CLUSTER, SUITE
from tests.e2e.workloads import NAMESPACE

EVERYTHING: Final = [
    {"namespaces": [NAMESPACE]} | {key: ["*"] for key in ("partitions", "accounts", "qos", "reservations", "licenses")}
]
"""scheduler.access of charts/slurm for a bench: its pods may use everything."""


@functools.cache
def _demo() -> Stack:
    return bring_up.bring_up(suite=SUITE, name=CLUSTER, nodes=3, tell=click.echo)


def idle_demo() -> Stack:
    """Return the cluster of `make demo`, with no jobs or pods on it."""
    stack = _demo()
    story.reset(stack)
    return stack


def breakable_demo() -> Cluster:
    """Return the demo cluster as a development cluster whose processes a bench may kill.

    Raises:
        ClickException: the demo runs on a cluster of somebody else.
    """
    own = bring_up.own_cluster(CLUSTER)
    if own is None:
        raise click.ClickException("chaos and outage break the apiserver: they run on a development cluster alone")
    return own


@contextlib.contextmanager
def own_stack(
    what: str, up: Callable[[Cluster, Sequence[Path]], None], *, suites: Sequence[str] = (SUITE,)
) -> Iterator[tuple[Stack, Cluster]]:
    """Yield a cluster of one bench that has the images of these versions of Slurm, and a stack of the first, without
    charts. `up` starts it, and gets the images' archives. It is taken down at the end, unless SUNKPY_KEEP is set.
    """
    images = {suite: bring_up.build_images(suite, click.echo) for suite in suites}
    archives = sorted({Path(image.archive) for built in images.values() for image in built.values()})
    refs = {key: image.ref for key, image in images[suites[0]].items()}
    cluster = Cluster(f"{CLUSTER}-{what}", progress=click.echo)
    try:
        up(cluster, archives)
        cluster.load(archives)
        yield Stack(suite=suites[0], kubeconfig=cluster.kubeconfig, bin_dir=cluster.bin, images=refs), cluster
    finally:
        if "SUNKPY_KEEP" not in os.environ:
            cluster.down()


def recorded_once(
    stack: Stack, jobs: Collection[str], *, by: str = "jobname", what: str = "records lost or doubled"
) -> report.Figure:
    """Wait until slurmdbd has one record with an end of each job, given by name or `jobid`. Return a figure of those
    for which it has not.
    """
    wrong: list[str] = []

    def unrecorded() -> list[str]:
        lines = stack.login(f"sacct -anXP -o {by},end -S now-1day").splitlines()
        ended = [line.partition("|")[0] for line in lines if not line.endswith("Unknown")]
        wrong[:] = [f"{job}: {ended.count(job)}" for job in jobs if ended.count(job) != 1]
        return wrong

    with contextlib.suppress(NeverSo):
        wait_until_none(unrecorded, timeout_s=240, what="one record of each job", every_s=5.0)
    return report.none(what, wrong, n=len(jobs))


def time_sbatch(stack: Stack, name: str, options: str = "", *, patience_s: float = 60.0) -> float:
    """Return the seconds from `sbatch` of a small job in the login pod to the first line of its script, at most
    `patience_s`.
    """
    out = f"{name}.out"
    said = stack.login(
        f"rm -f {out}; date +%s.%N; "
        f"job=$(sbatch --parsable -J {name} {options} -n1 -c1 --mem=32 -o /dev/null --wrap 'date +%s.%N > {out}'); "
        f"until [ -s {out} ] || [ $SECONDS -gt {patience_s:.0f} ]; do sleep 0.1; done; "
        f"cat {out}; scancel $job; rm -f {out}",
        timeout_s=patience_s + 60,
    )
    submitted, *started = map(float, said.split())
    return min(started[0] - submitted, patience_s) if started else patience_s

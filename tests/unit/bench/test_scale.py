"""Which sizes are measured, how the figures judge, and whose processor time is whose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from click.testing import CliRunner

from sunkpy.core.model import hostlist
from tests.bench import census
from tests.bench.__main__ import main
from tests.bench.census import Spent
from tests.bench.report import Figure
from tests.bench.scale import figures
from tests.bench.scale.ground import pool_of


def used(*, calls: int = 60, cpu_s: float = 0.5, memory_mib: float = 100.0) -> Spent:
    return Spent(calls=Counter({"nodes/": calls}), size=0.0, cpu_s=cpu_s, memory_mib=memory_mib)


def why_not(found: Iterable[Figure]) -> dict[str, str]:
    return {figure.figure: figure.limited_by for figure in found if not figure.holds}


def test_a_size_that_was_not_run_does_not_hold():
    figure = figures.not_run(10_000, needed_mib=9000, free_mib=4000)
    assert (figure.holds, figure.n, figure.limited_by) == (False, 0, "the memory of this machine")


@pytest.mark.parametrize("text", ["many", "", "99", "500,10", "500,"])
def test_a_size_too_small_for_samples_of_their_own_nodes_is_refused(text: str):
    said = CliRunner().invoke(main, ["scale", f"--sizes={text or ' '}"])
    assert (said.exit_code, "at least 100 nodes" in said.output) == (2, True)


def test_a_broken_bound_of_a_delay_says_what_limits_it():
    delays = [
        *figures.delay("500 nodes", figures.CORDON, figures.QUIET, [0.1, 0.2], "x"),
        *figures.delay("500 nodes", figures.CORDON, figures.BUSY, [0.3, 3.5], "busy"),
        *figures.delay("500 nodes", figures.DRAIN, figures.QUIET, [1.0, 1.5], "y"),
        *figures.delay("500 nodes", figures.DRAIN, figures.BUSY, [2.0, 4.0], "z"),
    ]
    assert why_not(delays) == {"500 nodes: cordon to drain in Slurm, 20 job starts/s, p99": "busy"}


def test_pods_may_come_a_fifth_later_than_those_of_each_peer():
    peers_s = {figures.STOCK: 2.0, figures.UNLIMITED: 1.0}
    assert why_not(figures.created("1 node", 1.1, peers_s, "etcd")) == {}
    (why,) = why_not(figures.created("1 node", 1.3, peers_s, "etcd")).items()
    what = "1 node: all pods of a NodeSet created, against DaemonSet without a rate limit"
    assert why == (what, "250 pods/s at most, by design; slurmctld takes in fewer; etcd")


def test_jobs_that_were_not_submitted_are_told():
    failed = "1 node: jobs that could not be submitted or ended meanwhile"
    assert why_not(figures.starts("1 node", 3.0, 17.0)) == {failed: "so the figures with 20 job starts/s are of fewer"}
    assert why_not(figures.starts("1 node", 20.0, 0.0)) == {}


@pytest.mark.parametrize(
    ("spent", "slurmctld", "figure", "limit"),
    [
        pytest.param({"syncer": used()}, 0.05, "", "", id="all hold"),
        pytest.param(
            {"syncer": used(), "scheduler": used(calls=30)}, 0.0, "calls of slurmrestd, all processes",
            "syncer nodes/ 1.00, scheduler nodes/ 0.50", id="calls",
        ),
        pytest.param({"a": used(cpu_s=3.0)}, 0.0, "processor time, all processes", "a 5.00", id="processor"),
        pytest.param({"a": used()}, 0.15, "slurmctld's processor time for us", "reads of all nodes", id="slurmctld"),
    ],
)  # fmt: skip
def test_bounds_are_of_all_processes_together_and_of_what_we_add(spent, slurmctld, figure, limit):
    found = figures.idle("1 node", spent, span_s=60.0, slurmctld_with=slurmctld, slurmctld_without=0.01)
    assert why_not(found) == ({f"1 node: idle, {figure}": limit} if figure else {})


def test_the_names_of_slurms_nodes_are_those_of_the_pods():
    pool = pool_of(500)
    (line,) = pool.conf.splitlines()
    assert hostlist.expand(line.split()[0].removeprefix("NodeName=")) == pool.slurm_nodes


def test_shares_are_of_the_time_between_two_looks():
    before = census.Census(10.0, 100.0, {"etcd": 1.0}, {})
    after = census.Census(20.0, 112.0, {"etcd": 2.0, "kwok": 5.0}, {})
    assert after.shares_since(before) == {"kwok": 0.5, "etcd": 0.1}
    said = after.busiest_since(before, cores=2)
    assert said == "1.20 of 2 cores in use, 0.60 by these programs: kwok 0.50, etcd 0.10"


def test_what_a_process_used_is_read_from_its_metrics():
    text = """\
# TYPE sunkpy_slurm_request_seconds histogram
sunkpy_slurm_request_seconds_count{endpoint="nodes/",code="ok"} 7.0
sunkpy_slurm_request_seconds_count{endpoint="nodes/",code="x"} 1.0
# TYPE sunkpy_slurm_bytes counter
sunkpy_slurm_bytes_total{endpoint="nodes/"} 2048.0
# TYPE process_cpu_seconds counter
process_cpu_seconds_total 1.5
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 1.048576e+08
"""
    found = census.read(text)
    assert (found.calls, found.size, found.cpu_s, found.memory_mib) == (Counter({"nodes/": 8}), 2048.0, 1.5, 100.0)

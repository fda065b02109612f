"""Which sizes are measured, how the figures judge, and whose processor time is whose."""

from __future__ import annotations

from collections import Counter

import pytest

from sunkpy.core.model import hostlist
from tests.bench import census, spent
from tests.bench.scale import figures
from tests.bench.scale.figures import Created, Delays, Idle, Measured, Samples
from tests.bench.scale.ground import Machines
from tests.bench.scale.measure import read_sizes
from tests.bench.spent import Spent


def used(*, calls: int = 60, cpu_s: float = 0.5, memory_mib: float = 100.0) -> Spent:
    return Spent(calls=Counter({"nodes/": calls}), size=0.0, cpu_s=cpu_s, memory_mib=memory_mib)


def measured(**changes: object) -> Measured:
    fields: dict[str, object] = {
        "size": 500,
        "created": Created(ours_s=1.1, peers_s={figures.UNLIMITED: 1.0}, limit="x"),
        "idle": Idle(span_s=60.0, spent={"syncer": used()}, slurmctld_with=0.05, slurmctld_without=0.01),
        "quiet": Delays(cordon=Samples([0.1, 0.2], "x"), drain=Samples([1.0, 1.5], "y")),
        "busy": Delays(cordon=Samples([0.3, 3.5], "busy"), drain=Samples([2.0, 4.0], "z")),
        "starts_per_s": 20.0,
        "failed_per_s": 0.0,
        "new_node_s": 0.005,
        "memory_mib": {"etcd": 100.0, "slurmctld": 50.0},
    }
    return Measured(**{**fields, **changes})  # type: ignore[arg-type]


def broken(found: Measured) -> dict[str, str]:
    return {figure.figure: figure.limited_by for figure in figures.figures(found) if not figure.holds}


def test_a_size_that_was_not_run_does_not_hold():
    figure = figures.not_run(10_000, needed_mib=9000, free_mib=4000)
    assert (figure.holds, figure.n, figure.limited_by) == (False, 0, "the memory of this machine")


@pytest.mark.parametrize("text", ["many", "", "99", "500,10"])
def test_a_size_too_small_for_samples_of_their_own_nodes_is_refused(text: str):
    with pytest.raises(ValueError, match=r"invalid literal|at least 100"):
        read_sizes(text)


def test_each_broken_bound_says_what_limits_it():
    assert broken(measured()) == {"500 nodes: cordon to drain in Slurm, 20 job starts/s, p99": "busy"}


@pytest.mark.parametrize(
    ("changes", "figure", "limit"),
    [
        (
            {"created": Created(ours_s=1.3, peers_s={figures.STOCK: 2.0, figures.UNLIMITED: 1.0}, limit="etcd")},
            "500 nodes: all pods of a NodeSet created, against DaemonSet without a rate limit",
            "250 pods/s at most, by design; slurmctld takes in fewer; etcd",
        ),
        (
            {
                "idle": Idle(
                    span_s=60.0,
                    spent={"syncer": used(), "scheduler": used(calls=30)},
                    slurmctld_with=0.0,
                    slurmctld_without=0.0,
                )
            },
            "500 nodes: idle, calls of slurmrestd, all processes",
            "syncer nodes/ 1.00, scheduler nodes/ 0.50",
        ),
        (
            {"starts_per_s": 3.0, "failed_per_s": 17.0},
            "500 nodes: jobs that could not be submitted or ended meanwhile",
            "so the figures with 20 job starts/s are of fewer; busy",
        ),
        (
            {"idle": Idle(span_s=60.0, spent={"a": used(cpu_s=3.0)}, slurmctld_with=0.0, slurmctld_without=0.0)},
            "500 nodes: idle, processor time, all processes",
            "a 5.00",
        ),
        (
            {"idle": Idle(span_s=60.0, spent={"a": used()}, slurmctld_with=0.15, slurmctld_without=0.01)},
            "500 nodes: idle, slurmctld's processor time for us",
            "reads of all nodes",
        ),
    ],
)
def test_bounds_are_of_all_processes_together_and_of_what_we_add(changes, figure, limit):
    assert broken(measured(**changes))[figure] == limit


def test_the_names_of_slurms_nodes_are_those_of_the_pods():
    machines = Machines(500)
    (line,) = machines.conf.splitlines()
    assert hostlist.expand(line.split()[0].removeprefix("NodeName=")) == machines.slurm_nodes


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
    found = spent.read(text)
    assert (found.calls, found.size, found.cpu_s, found.memory_mib) == (Counter({"nodes/": 8}), 2048.0, 1.5, 100.0)

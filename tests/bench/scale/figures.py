"""Makes figures with bounds of what was measured at one size."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sunkpy.operator.memory import CREATED_PER_S
from tests.bench import report
from tests.bench.report import Figure
from tests.bench.scale.load import STARTS_PER_S
from tests.bench.spent import Spent

_PEER_SHARE = 1.2
_CALLS_PER_S = 1.2
_CORE = 3.0
_MEMORY_MIB = 400
_OF_SLURMCTLD = 10.0
_FAILED_PER_S = 0.5
_SHARE = "% of a core"
_PACE = f"{CREATED_PER_S} pods/s at most, by design; slurmctld takes in fewer"
UNLIMITED, STOCK = "against DaemonSet without a rate limit", "against DaemonSet"
PEERS = {
    UNLIMITED: "DaemonSet controller, its limit of 20 requests/s lifted",
    STOCK: "DaemonSet controller as it comes, 20 requests/s",
}


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds until all pods existed, by sunkpy and by each peer, and which programs used the machine meanwhile."""

    ours_s: float
    peers_s: Mapping[str, float]
    limit: str


class Samples(msgspec.Struct, frozen=True):
    """The seconds of each sample, and which programs used the machine meanwhile."""

    took_s: list[float]
    limit: str


class Delays(msgspec.Struct, frozen=True, kw_only=True):
    """The time from a cordon to Slurm, and from a drain in Slurm to the pod, on a quiet or a busy cluster."""

    cordon: Samples
    drain: Samples


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """What each process of sunkpy used in `span_s` seconds, and slurmctld's share of a core with and without these
    processes.
    """

    span_s: float
    spent: Mapping[str, Spent]
    slurmctld_with: float
    slurmctld_without: float


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """All measurements with `size` nodes. `starts_per_s`, `failed_per_s`: the rates of the jobs while the cluster
    was busy. `new_node_s`: slurmctld's processor time for one more node. `memory_mib`: the memory of each program at
    the end, with sunkpy's and the bench's.
    """

    size: int
    created: Created
    idle: Idle
    quiet: Delays
    busy: Delays
    starts_per_s: float
    failed_per_s: float
    new_node_s: float
    memory_mib: Mapping[str, float]


def figures(measured: Measured) -> list[Figure]:
    """Return the figures of one number of nodes: creation, cordons, drains, and what an idle cluster costs."""
    at, load = f"{measured.size} nodes", f"{STARTS_PER_S} job starts/s"
    quiet, busy = measured.quiet, measured.busy
    failed, why = "jobs that could not be submitted or ended meanwhile", f"so the figures with {load} are of fewer"
    return [
        *_created(at, measured.created),
        *_delay(f"{at}: cordon to drain in Slurm, idle", quiet.cordon, bound=0.5),
        *_delay(f"{at}: cordon to drain in Slurm, {load}", busy.cordon, bound=3.0),
        *_delay(f"{at}: drain in Slurm to pod condition, idle", quiet.drain, bound=2.0),
        *_delay(f"{at}: drain in Slurm to pod condition, {load}", busy.drain, bound=5.0),
        report.observed(f"{at}: job starts meanwhile", measured.starts_per_s, unit="/s"),
        report.at_most(
            f"{at}: {failed}", measured.failed_per_s, unit="/s", bound=_FAILED_PER_S,
            limited_by=f"{why}; {busy.cordon.limit}",
        ),
        *_idle(at, measured.idle),
        report.observed(f"{at}: slurmctld's processor time for a new node", 1000 * measured.new_node_s, unit="ms"),
        *_ground(at, measured.memory_mib),
    ]  # fmt: skip


def _created(at: str, created: Created) -> list[Figure]:
    figures = []
    for name, peer_s in created.peers_s.items():
        peer = report.against(f"{PEERS[name]}, s", peer_s, ours=created.ours_s)
        what, bound, why = f"all pods of a NodeSet created, {name}", _PEER_SHARE * peer_s, f"{_PACE}; {created.limit}"
        figures.append(
            report.at_most(f"{at}: {what}", created.ours_s, bound=round(bound, 3), peer=peer, limited_by=why)
        )
    return figures


def _delay(figure: str, samples: Samples, *, bound: float) -> list[Figure]:
    took_s, n = samples.took_s, len(samples.took_s)
    return [
        report.observed(f"{figure}, median", report.median(took_s), n=n),
        report.at_most(f"{figure}, p99", report.p99(took_s), bound=bound, n=n, limited_by=samples.limit),
    ]


def _idle(at: str, idle: Idle) -> list[Figure]:
    calls = {name: spent.calls.total() / idle.span_s for name, spent in idle.spent.items()}
    cores = {name: 100 * spent.cpu_s / idle.span_s for name, spent in idle.spent.items()}
    asked = {
        f"{name} {endpoint}": count / idle.span_s
        for name, spent in idle.spent.items()
        for endpoint, count in spent.calls.most_common()
    }
    without = 100 * idle.slurmctld_without
    by_itself = report.Peer(name="by itself, % of a core", value=round(without, 4), ratio=None)
    return [
        *_all_and_each(f"{at}: idle, calls of slurmrestd", calls, unit="/s", bound=_CALLS_PER_S, of=asked),
        *_all_and_each(f"{at}: idle, processor time", cores, unit=_SHARE, bound=_CORE, of=cores),
        *(_memory(f"{at}: memory, {name}", spent) for name, spent in idle.spent.items()),
        report.at_most(
            f"{at}: idle, slurmctld's processor time for us", 100 * idle.slurmctld_with - without, unit=_SHARE,
            bound=_OF_SLURMCTLD, peer=by_itself, limited_by="reads of all nodes",
        ),
    ]  # fmt: skip


def _memory(figure: str, spent: Spent) -> Figure:
    why = "what its watches keep"
    return report.at_most(figure, spent.memory_mib, unit="MiB", bound=_MEMORY_MIB, limited_by=why)


def _all_and_each(
    figure: str, values: Mapping[str, float], *, unit: str, bound: float, of: Mapping[str, float]
) -> list[Figure]:
    """Return a figure of the sum, which names its parts if it exceeds the bound, and a figure without bound for each
    part.
    """
    together, limit = sum(values.values()), ", ".join(f"{what} {value:.2f}" for what, value in of.items())
    return [
        report.at_most(f"{figure}, all processes", together, unit=unit, bound=bound, limited_by=limit),
        *(report.observed(f"{figure}, {name}", value, unit=unit) for name, value in values.items()),
    ]


def _ground(at: str, memory_mib: Mapping[str, float]) -> list[Figure]:
    """Return figures of the memory of programs that are not sunkpy's, and of all programs."""
    named = [name for name in ("slurmctld", "slurmrestd", "kube-apiserver", "etcd") if name in memory_mib]
    return [
        *(report.observed(f"{at}: memory, {name}", memory_mib[name], unit="MiB") for name in named),
        report.observed(f"{at}: memory of all programs", sum(memory_mib.values()), unit="MiB"),
    ]


def not_run(size: int, *, needed_mib: int, free_mib: int) -> Figure:
    """Return a figure of a size for which this machine has too little memory."""
    what, why = f"{size} nodes: not run, memory of all programs", "the memory of this machine"
    return report.at_most(what, needed_mib, unit="MiB", bound=free_mib, n=0, limited_by=why)


def broken_off(size: int, why: str) -> Figure:
    """Return a figure of a size that failed before its end."""
    return Figure(
        figure=f"{size} nodes: broken off", value=size, unit="nodes", bound=None, holds=False, n=0, limited_by=why
    )


def measured_up_to(size: int) -> Figure:
    """Return a figure of the largest size that was measured."""
    return report.observed("measured up to", size, unit="nodes")

"""Makes figures with bounds of what was measured at one size; `at` names the size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sunkpy.operator.memory import CREATED_PER_S
from tests.bench import report
from tests.bench.census import Spent
from tests.bench.report import Figure
from tests.bench.scale.ground import STARTS_PER_S

_PEER_SHARE = 1.2
_CALLS_PER_S = 1.2
_CORE, _OF_SLURMCTLD = 3.0, 10.0
"""The most percent of a core that sunkpy's processes use while nothing happens, and that slurmctld uses for them."""
_MEMORY_MIB = 400
_FAILED_PER_S = 0.5
_SHARE = "% of a core"
_PACE = f"{CREATED_PER_S} pods/s at most, by design; slurmctld takes in fewer"
UNLIMITED, STOCK = "against DaemonSet without a rate limit", "against DaemonSet"
PEERS = {
    UNLIMITED: "DaemonSet controller, its limit of 20 requests/s lifted",
    STOCK: "DaemonSet controller as it comes, 20 requests/s",
}
QUIET, BUSY = "idle", f"{STARTS_PER_S} job starts/s"
CORDON, DRAIN = "cordon to drain in Slurm", "drain in Slurm to pod condition"
_DELAY_S = {(CORDON, QUIET): 0.5, (CORDON, BUSY): 3.0, (DRAIN, QUIET): 2.0, (DRAIN, BUSY): 5.0}
"""The bound of the p99 of each delay, on a quiet and on a busy cluster."""


def created(at: str, ours_s: float, peers_s: Mapping[str, float], limit: str) -> Iterator[Figure]:
    """Yield a figure of the seconds until all pods existed against each peer's. `limit`: who used the machine."""
    for name, peer_s in peers_s.items():
        peer = report.against(f"{PEERS[name]}, s", peer_s, ours=ours_s)
        what, bound = f"{at}: all pods of a NodeSet created, {name}", round(_PEER_SHARE * peer_s, 3)
        yield report.at_most(what, ours_s, bound=bound, peer=peer, limited_by=f"{_PACE}; {limit}")


def delay(at: str, what: str, load: str, took_s: Sequence[float], limit: str) -> list[Figure]:
    """Return figures of the delays `what`, on a cluster under this `load`."""
    figure, n = f"{at}: {what}, {load}", len(took_s)
    return [
        report.observed(f"{figure}, median", report.median(took_s), n=n),
        report.at_most(f"{figure}, p99", report.p99(took_s), bound=_DELAY_S[what, load], n=n, limited_by=limit),
    ]


def starts(at: str, started_per_s: float, failed_per_s: float) -> list[Figure]:
    """Return figures of the jobs that made the cluster busy."""
    failed, why = "jobs that could not be submitted or ended meanwhile", f"so the figures with {BUSY} are of fewer"
    return [
        report.observed(f"{at}: job starts meanwhile", started_per_s, unit="/s"),
        report.at_most(f"{at}: {failed}", failed_per_s, unit="/s", bound=_FAILED_PER_S, limited_by=why),
    ]


def idle(
    at: str, spent: Mapping[str, Spent], *, span_s: float, slurmctld_with: float, slurmctld_without: float
) -> list[Figure]:
    """Return figures of what each process of sunkpy used in `span_s` seconds, and of slurmctld's share of a core with
    and without these processes.
    """
    calls = {name: each.calls.total() / span_s for name, each in spent.items()}
    cores = {name: 100 * each.cpu_s / span_s for name, each in spent.items()}
    asked = {f"{name} {what}": n / span_s for name, each in spent.items() for what, n in each.calls.most_common()}
    with_us, without = 100 * slurmctld_with, 100 * slurmctld_without
    by_itself = report.Peer(name="by itself, % of a core", value=round(without, 4), ratio=None)
    return [
        *_all_and_each(f"{at}: idle, calls of slurmrestd", calls, unit="/s", bound=_CALLS_PER_S, of=asked),
        *_all_and_each(f"{at}: idle, processor time", cores, unit=_SHARE, bound=_CORE, of=cores),
        *(
            report.at_most(
                f"{at}: memory, {name}", each.memory_mib, unit="MiB", bound=_MEMORY_MIB,
                limited_by="what its watches keep",
            )
            for name, each in spent.items()
        ),
        report.at_most(
            f"{at}: idle, slurmctld's processor time for us", with_us - without, unit=_SHARE, bound=_OF_SLURMCTLD,
            peer=by_itself, limited_by="reads of all nodes",
        ),
    ]  # fmt: skip


def _all_and_each(
    figure: str, values: Mapping[str, float], *, unit: str, bound: float, of: Mapping[str, float]
) -> list[Figure]:
    """Return a figure of the sum, which names its parts if it exceeds the bound, and a figure of each part."""
    together, limit = sum(values.values()), ", ".join(f"{what} {value:.2f}" for what, value in of.items())
    return [
        report.at_most(f"{figure}, all processes", together, unit=unit, bound=bound, limited_by=limit),
        *(report.observed(f"{figure}, {name}", value, unit=unit) for name, value in values.items()),
    ]


def memory(at: str, used_mib: Mapping[str, float]) -> list[Figure]:
    """Return figures of the memory of programs that are not sunkpy's, and of all programs."""
    named = [name for name in ("slurmctld", "slurmrestd", "kube-apiserver", "etcd") if name in used_mib]
    return [
        *(report.observed(f"{at}: memory, {name}", used_mib[name], unit="MiB") for name in named),
        report.observed(f"{at}: memory of all programs", sum(used_mib.values()), unit="MiB"),
    ]


def not_run(size: int, *, needed_mib: int, free_mib: int) -> Figure:
    """Return a figure of a size for which this machine has too little memory."""
    what, why = f"{size} nodes: not run, memory of all programs", "the memory of this machine"
    return report.at_most(what, needed_mib, unit="MiB", bound=free_mib, n=0, limited_by=why)

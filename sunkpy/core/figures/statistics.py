"""slurmctld's statistics of itself (sdiag(1)) as metrics, under slurmctld's names; cycle times are in microseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from sunkpy.core.figures.family import MetricFamily, Sample, single


class Rpc(msgspec.Struct, frozen=True, kw_only=True):
    """The requests to slurmctld of one message type, or of one user: how many, and the time to serve them."""

    name: str
    count: int = 0
    total_us: int = 0


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """slurmctld's statistics of itself. `figures`: slurmrestd's name → value (a nested name is `part.name`). `by_type`,
    `by_user`: the requests by message type and by user.
    """

    figures: Mapping[str, int] = {}
    by_type: tuple[Rpc, ...] = ()
    by_user: tuple[Rpc, ...] = ()


NAMES: Final = {
    "agent_cnt": "agent_count",
    "agent_queue_size": "agent_queue_size",
    "agent_thread_cnt": "agent_thread_count",
    "backfilled_het_jobs": "bf_backfilled_het_jobs",
    "backfilled_jobs": "bf_backfilled_jobs",
    "bf_active": "bf_active",
    "bf_cycle_cnt": "bf_cycle_counter",
    "bf_cycle_last": "bf_cycle_last",
    "bf_cycle_max": "bf_cycle_max",
    "bf_cycle_tot": "bf_cycle_sum",
    "bf_depth_mean": "bf_depth_mean",
    "bf_depth_tot": "bf_depth_sum",
    "bf_depth_try_tot": "bf_depth_try_sum",
    "bf_exit_end": "bf_exit.end_job_queue",
    "bf_exit_max_job_start": "bf_exit.bf_max_job_start",
    "bf_exit_max_job_test": "bf_exit.bf_max_job_test",
    "bf_exit_state_changed": "bf_exit.state_changed",
    "bf_exit_table_limit": "bf_exit.bf_node_space_size",
    "bf_exit_timeout": "bf_exit.bf_max_time",
    "bf_last_depth": "bf_last_depth",
    "bf_last_depth_try": "bf_last_depth_try",
    "bf_mean_cycle": "bf_cycle_mean",
    "bf_mean_table_sz": "bf_table_size_mean",
    "bf_queue_len": "bf_queue_len",
    "bf_queue_len_mean": "bf_queue_len_mean",
    "bf_queue_len_tot": "bf_queue_len_sum",
    "bf_table_size": "bf_table_size",
    "bf_table_size_tot": "bf_table_size_sum",
    "bf_try_depth_mean": "bf_depth_mean_try",
    "bf_when_last_cycle": "bf_when_last_cycle",
    "last_backfilled_jobs": "bf_last_backfilled_jobs",
    "last_proc_req_start": "req_time_start",
    "sched_exit_end": "schedule_exit.end_job_queue",
    "sched_exit_lic": "schedule_exit.licenses",
    "sched_exit_max_depth": "schedule_exit.default_queue_depth",
    "sched_exit_max_job_start": "schedule_exit.max_job_start",
    "sched_exit_rpc_cnt": "schedule_exit.max_rpc_cnt",
    "sched_exit_timeout": "schedule_exit.max_sched_time",
    "sched_mean_cycle": "schedule_cycle_mean",
    "sched_mean_depth_cycle": "schedule_cycle_mean_depth",
    "sched_stats_timestamp": "req_time",
    "schedule_cycle_cnt": "schedule_cycle_total",
    "schedule_cycle_depth": "schedule_cycle_depth",
    "schedule_cycle_last": "schedule_cycle_last",
    "schedule_cycle_max": "schedule_cycle_max",
    "schedule_cycle_tot": "schedule_cycle_sum",
    "schedule_queue_len": "schedule_queue_length",
    "sdiag_job_states_ts": "job_states_ts",
    "sdiag_jobs_canceled": "jobs_canceled",
    "sdiag_jobs_completed": "jobs_completed",
    "sdiag_jobs_failed": "jobs_failed",
    "sdiag_jobs_pending": "jobs_pending",
    "sdiag_jobs_running": "jobs_running",
    "sdiag_jobs_started": "jobs_started",
    "sdiag_jobs_submitted": "jobs_submitted",
    "sdiag_latency": "gettimeofday_latency",
    "server_thread_cnt": "server_thread_count",
    "slurmdbd_queue_size": "dbd_agent_queue_size",
}
"""slurmctld's name of a metric → slurmrestd's name of the figure."""

_COUNT: Final = "Requests that slurmctld got since its start or the last `sdiag --reset`"
_SECONDS: Final = "Seconds that slurmctld worked on these requests"


def statistics_families(statistics: Statistics) -> Iterator[MetricFamily]:
    """Yield metrics `slurm_sched*`, `slurm_bf_*`, `slurm_sdiag_*` and others. Figures that this version of Slurm does
    not have are left out.
    """
    for name, source in NAMES.items():
        if source in statistics.figures:
            yield single(f"slurm_{name}", f"sdiag: {source.replace('_', ' ')}", statistics.figures[source])
    yield from _rpcs("slurm_controller_rpc", "message_type", statistics.by_type)
    yield from _rpcs("slurm_controller_user_rpc", "user", statistics.by_user)


def _rpcs(name: str, label: str, rpcs: Iterable[Rpc]) -> Iterator[MetricFamily]:
    values: Mapping[str, tuple[str, Callable[[Rpc], float]]] = {
        "calls": (_COUNT, lambda rpc: rpc.count),
        "duration_seconds": (_SECONDS, lambda rpc: rpc.total_us / 1e6),
    }
    for end, (text, of) in values.items():
        samples = [Sample((rpc.name,), of(rpc)) for rpc in rpcs]
        yield MetricFamily(name=f"{name}_{end}_total", help=text, labels=(label,), samples=samples)

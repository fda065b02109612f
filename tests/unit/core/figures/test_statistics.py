"""What slurmctld says of itself, under its own names."""

from __future__ import annotations

from sunkpy.core.figures.statistics import Rpc, Statistics, statistics_families


def test_figures_have_slurmctlds_names_and_what_is_not_given_is_absent() -> None:
    said = Statistics(
        figures={"schedule_cycle_total": 15, "bf_exit.bf_max_time": 2, "unheard_of": 1},
        by_type=(Rpc(name="REQUEST_PING", count=4, total_us=2_500_000),),
        by_user=(Rpc(name="ann", count=3, total_us=1_000),),
    )
    found = {(family.name, labels): value for family in statistics_families(said) for labels, value in family.samples}
    assert found == {
        ("slurm_schedule_cycle_cnt", ()): 15,
        ("slurm_bf_exit_timeout", ()): 2,
        ("slurm_controller_rpc_calls_total", ("REQUEST_PING",)): 4,
        ("slurm_controller_rpc_duration_seconds_total", ("REQUEST_PING",)): 2.5,
        ("slurm_controller_user_rpc_calls_total", ("ann",)): 3,
        ("slurm_controller_user_rpc_duration_seconds_total", ("ann",)): 0.001,
    }

import pytest

from sunkpy.slurm import pace


@pytest.mark.parametrize(
    ("took_s", "slurmctld_s", "pause_s"),
    [
        pytest.param(0.006, None, 0.06, id="a small cluster"),
        pytest.param(1.9, None, 19.0, id="slurmctld does not say"),
        pytest.param(1.9, 0.08, 2.85, id="slurmrestd takes most of it"),
        pytest.param(1.9, 0.5, 5.0, id="slurmctld is slow"),
        pytest.param(1.9, 60.0, 19.0, id="others read too: no more than the whole read"),
        pytest.param(25.0, None, pace.LONGEST_S, id="never longer than that"),
    ],
)
def test_slurmctld_spends_a_tenth_of_its_time_at_most(took_s: float, slurmctld_s: float | None, pause_s: float) -> None:
    assert pace.Cost(took_s=took_s, slurmctld_s=slurmctld_s).pause_s == pytest.approx(pause_s)


@pytest.mark.parametrize(
    ("poll_s", "took_s", "turn_s"), [(1.0, 0.006, 1.006), (1.0, 1.0, 11.0), (100.0, 0.006, 30.006)]
)
def test_a_turn_is_the_pause_and_the_read(poll_s: float, took_s: float, turn_s: float) -> None:
    assert pace.turn_s(poll_s, pace.Cost(took_s=took_s)) == pytest.approx(turn_s)

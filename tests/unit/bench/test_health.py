"""What the bench of sick nodes plans, and which starts of jobs it calls early."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.bench.health import FAULTS, KINDS, Suffered, figures, make_plan, started_early

FAULT = Suffered(kind="a label", node="n1", begun_s=100.0, drained_s=100.5, back_s=160.0)


def test_each_kind_comes_equally_often_in_an_order_of_the_seed():
    assert set(Counter(make_plan(1, FAULTS)).values()) == {FAULTS // len(KINDS)}
    assert make_plan(1, FAULTS) == make_plan(1, FAULTS) != make_plan(2, FAULTS)


@pytest.mark.parametrize(
    ("starts", "passed", "early"),
    [
        pytest.param([99, 100], [150], 0, id="before the drain"),
        pytest.param([120], [150], 1, id="before the check"),
        pytest.param([150, 151], [150], 0, id="after the check"),
        pytest.param([130], [120, 150], 1, id="before the last check"),
        pytest.param([120], [90], 1, id="a check before the fault"),
        pytest.param([120], [], 1, id="no check"),
        pytest.param([161], [], 0, id="back"),
    ],
)
def test_a_job_between_the_drain_and_the_check_that_passed_is_early(starts, passed, early):
    assert len(started_early([FAULT], {"n1": starts, "n2": [120]}, {"n1": passed})) == early


def test_of_a_drain_of_others_nothing_is_early():
    assert (
        started_early([Suffered(kind="a drain of Slurm's own", node="n1", begun_s=100, back_s=160)], {"n1": [120]}, {})
        == []
    )


@pytest.mark.parametrize(("kills", "measured"), [([], 1), ([95.0], 0), ([200.0], 1)])
def test_a_drain_while_a_part_was_killed_is_not_measured(kills, measured):
    found = list(figures([FAULT], {}, {"n1": [150]}, kills=kills, seed=1))
    assert sum("nobody killed, median" in each.figure for each in found) == measured
    assert all(each.holds for each in found)

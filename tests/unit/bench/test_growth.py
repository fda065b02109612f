"""What the bench of growth wants, and how it tells pods that had a job from pods that had none."""

from __future__ import annotations

import pytest

from tests.bench.growth.measure import QUICK, Plan, bindings, groups_of, make_waves


@pytest.mark.parametrize("plan", [Plan(), QUICK])
def test_a_plan_says_how_many_nodes_its_pods_take(plan):
    gang, singles, halves = make_waves("capacityBuffer", plan)
    assert plan.nodes == sum(plan.jobs) + gang.count + singles.count + halves.count // 2
    assert groups_of(gang) == [gang.names]
    assert groups_of(singles) == [[name] for name in singles.names]
    assert gang.names[0] == "capacitybuffer-gang-0", "the name of a pod"


def test_twenty_nodes_are_wanted():
    assert Plan().nodes == 20


def test_pods_without_a_job_may_take_longer():
    had, had_not = bindings("20 nodes", [(True, 1.0), (False, 3.0), (True, 2.5)])
    assert (had.value, had.bound, had.holds, had.n) == (2.5, 2.0, False, 2)
    assert (had_not.value, had_not.bound, had_not.holds) == (3.0, 5.0, True)
    (alone,) = bindings("20 nodes", [(True, 1.0)])
    assert alone.figure == "20 nodes: from the last registration to the binding of pods whose job waited, longest"

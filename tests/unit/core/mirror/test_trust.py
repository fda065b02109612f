import pytest

from sunkpy.core.mirror import ActionBudget, find_vanished, is_expected
from sunkpy.core.mirror.trust import WINDOW_S
from tests.unit.core.mirror.build import make_pod


@pytest.mark.parametrize(
    ("registered", "vanished", "is_believed"),
    [(1, 1, True), (3, 0, True), (3, 1, True), (3, 2, False), (3, 3, False), (20, 4, True), (20, 5, False)],
)
def test_too_many_missing_nodes_are_not_believed(registered: int, vanished: int, is_believed: bool) -> None:
    expected = {f"a-{n}" for n in range(registered)}
    listed = {f"a-{n}" for n in range(vanished, registered)}
    assert (not find_vanished(expected, listed)) == is_believed


def test_pods_that_never_registered_or_are_going_are_not_missed() -> None:
    assert is_expected(make_pod(registered=True))
    assert not is_expected(make_pod())
    assert not is_expected(make_pod(registered=True, deleting=True))


@pytest.mark.parametrize(("nodes", "allowed"), [(1, 3), (15, 3), (20, 4), (1000, 200)])
def test_a_fifth_of_the_nodes_may_change_unannounced_within_a_minute(nodes: int, allowed: int) -> None:
    budget, done = ActionBudget(), 0
    for _ in range(2 * allowed):
        budget, is_allowed = budget.spend(nodes=nodes, now_s=0.0)
        done += is_allowed
    assert done == allowed


def test_the_budget_comes_back_after_its_window() -> None:
    budget = ActionBudget(spent_at_s=(0.0, 0.0, 0.0))
    assert budget.spend(nodes=3, now_s=WINDOW_S - 1)[1] is False
    assert budget.spend(nodes=3, now_s=WINDOW_S)[1] is True

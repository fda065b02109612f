"""What the demo believes of a node."""

from __future__ import annotations

import pytest

from demo.story import is_idle


@pytest.mark.parametrize(
    ("state", "idle"),
    [
        ("IDLE", True),
        ("IDLE+DYNAMIC_NORM", True),
        ("IDLE+DYNAMIC_NORM+PLANNED", True),
        ("IDLE*+DYNAMIC_NORM", False),
        ("IDLE+COMPLETING", False),
        ("IDLE+DRAIN+DYNAMIC_NORM", False),
        ("ALLOCATED+DYNAMIC_NORM", False),
    ],
)
def test_a_node_is_idle_when_it_runs_nothing_and_may_run_everything(state: str, idle: bool):
    assert is_idle({"State": state}) is idle

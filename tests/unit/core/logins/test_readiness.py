"""What a person reads who waits for their login pod."""

from __future__ import annotations

import pytest

from sunkpy.core.logins import LoginView, is_open, why_closed
from tests.unit.core.logins.build import make_pod, make_view, make_workload

RUNNING = make_workload()


@pytest.mark.parametrize(
    ("view", "told"),
    [
        (make_view(None, None), "your login pod is being started"),
        (make_view(make_workload(replicas=0), None), "your login pod is being started"),
        (make_view(make_workload(replicas=0), make_pod()), "your login pod is being started"),
        (make_view(RUNNING, None), "your login pod is being started"),
        (make_view(RUNNING, make_pod(is_deleting=True)), "your previous login pod is ending"),
        (make_view(RUNNING, make_pod(code=80)), "your previous login pod is ending"),
        (make_view(RUNNING, make_pod(code=81, is_up_again=True)), "your previous login pod is ending"),
        (make_view(RUNNING, make_pod(is_ready=False)), "your login pod is starting"),
        (
            make_view(RUNNING, make_pod(is_ready=False, unschedulable="0/3 nodes are available: 3 Insufficient cpu.")),
            "your login pod waits for a node with room: 0/3 nodes are available: 3 Insufficient cpu.",
        ),
        (make_view(RUNNING, make_pod()), ""),
    ],
)
def test_who_waits_reads_why_and_comes_in_when_there_is_no_why(view: LoginView, told: str):
    assert (why_closed(view), is_open(view)) == (told, not told)

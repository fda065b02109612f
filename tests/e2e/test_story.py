"""The seven steps of the demo, on both versions of Slurm (the other one is `long`); the other tests run on one.

They come last (conftest.py), because they leave the other version running.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from demo import story
from demo.bring_up import bring_up
from demo.report import Report
from demo.stack import SUITES, Stack
from tests.e2e.conftest import CLUSTER, NODES, SUITE


@pytest.fixture(
    scope="module",
    params=[SUITE, *(pytest.param(other, marks=pytest.mark.long) for other in SUITES if other != SUITE)],
)
def told(request: pytest.FixtureRequest) -> Stack:
    """A stack of each suite, the one that the other tests have used first."""
    stack = bring_up(suite=request.param, name=CLUSTER, nodes=NODES, tell=print)
    story.reset(stack)
    return stack


@pytest.mark.parametrize(("title", "step"), story.STEPS, ids=[title for title, _ in story.STEPS])
def test_step(told: Stack, title: str, step: story.Step, tmp_path: Path) -> None:
    report = Report(tmp_path / "demo.json", Console())
    report.run(title, lambda tell: step(told, tell))
    assert [kept["ok"] for kept in json.loads((tmp_path / "demo.json").read_text())] == [True]


def test_bringing_up_what_is_up_changes_nothing(told: Stack) -> None:
    def state() -> str:
        """Without the pods of Jobs: a CronJob makes one each hour."""
        owners = "jsonpath={range .items[*]}{.metadata.uid} {.metadata.ownerReferences[*].kind}{'\\n'}{end}"
        pods = told.kubectl("get", "pods", "-A", "-o", owners).splitlines()
        return told.helm("list", "-A", "-o", "json") + " ".join(each for each in pods if not each.endswith(" Job"))

    story.reset(told)
    before = state()
    bring_up(suite=told.suite, name=CLUSTER, nodes=NODES, tell=print)
    assert state() == before

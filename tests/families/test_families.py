"""A small selection of the manifests; all of them are `make bench BENCH=families`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo.stack import Stack
from devcluster import Cluster
from devcluster.operators import catalog
from devcluster.operators.install import install, remove
from tests.families.cases import SMALL, Case, phases, read
from tests.families.run import run_case

CASES = [case for case in read() if case.manifest in SMALL]


@pytest.fixture(params=[operators for operators, _ in phases(CASES)], ids=",".join, scope="module")
def group(request: pytest.FixtureRequest, room: tuple[Stack, Cluster]) -> Iterator[list[Case]]:
    """Cases that need the same operators, and these installed."""
    operators = catalog.select(request.param)
    install(room[1], operators)
    yield [case for case in CASES if case.operators == request.param]
    remove(room[1], operators)


def test_manifests_become_the_jobs_they_should_and_leave_whole(room: tuple[Stack, Cluster], group: list[Case]) -> None:
    outcomes = [run_case(*room, case) for case in group]
    assert {outcome.case.manifest: outcome.wrong for outcome in outcomes if outcome.wrong} == {}

"""The report says by itself what holds, and the file has exactly the promised keys."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.bench import report

KEYS = {"figure", "value", "unit", "bound", "holds", "n", "seed", "peer"}


def test_a_report_is_a_list_of_figures_with_the_promised_keys(tmp_path):
    peer = report.against("sbatch", 0.5, ours=0.6)
    figures = [report.at_most("pod to bound", 0.6, unit="s", bound=0.75, n=30, peer=peer)]
    printed = io.StringIO()
    path = report.write("latency", figures, folder=tmp_path / "new", console=Console(file=printed, width=200))
    (entry,) = json.loads(path.read_text())
    assert set(entry) == KEYS
    assert entry["holds"] is True
    assert entry["peer"] == {"name": "sbatch", "value": 0.5, "ratio": 1.2}
    assert "pod to bound" in printed.getvalue()


def test_a_bound_that_is_not_reached_says_what_limits_it(tmp_path):
    figure = report.at_most("drain", 4.0, unit="s", bound=3.0, n=50, limited_by="two shared cores")
    path = report.write("x", [figure], folder=tmp_path, console=Console(file=io.StringIO(), width=200))
    (entry,) = json.loads(path.read_text())
    assert entry["holds"] is False
    assert entry["limited_by"] == "two shared cores"
    assert entry["peer"] is None


def test_a_bound_that_is_reached_names_no_limit():
    assert report.at_most("drain", 3.0, unit="s", bound=3.0, n=1, limited_by="anything").limited_by == ""


def test_what_must_be_none_holds_while_nothing_is_wrong_and_else_names_the_first():
    assert report.none("lost", [], n=3).holds
    figure = report.none("lost", [f"job {number}" for number in range(30)], n=40)
    assert (figure.holds, figure.value, figure.n) == (False, 30, 40)
    assert figure.limited_by.split("; ") == [f"job {number}" for number in range(20)]


def test_median_and_p95_have_bounds_and_peers_of_their_own():
    middle, most = report.spread("login", [1.0, 2.0, 9.0], bounds=(2.0, 5.0), peer=("sbatch", [2.0, 4.0]))
    assert (middle.figure, middle.value, middle.holds) == ("login, median", 2.0, True)
    assert (most.figure, most.value, most.holds) == ("login, p95", 9.0, False)
    assert (middle.peer, most.peer) == (
        report.Peer(name="sbatch, median", value=3.0, ratio=0.667),
        report.Peer(name="sbatch, p95", value=4.0, ratio=2.25),
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0], 1.0), ([float(v) for v in range(1, 21)], 19.0), ([float(v) for v in range(1, 101)], 95.0)],
)
def test_p95_is_the_nearest_rank(values, expected):
    assert report.p95(values) == expected


@given(st.lists(st.floats(min_value=0, max_value=1e6), min_size=1))
def test_p95_was_measured_and_covers_95_of_100(values):
    limit = report.p95(values)
    assert limit in values
    assert sum(value <= limit for value in values) >= 0.95 * len(values)


@given(st.lists(st.floats(min_value=0, max_value=1e6), min_size=1))
def test_p99_of_fewer_than_a_hundred_is_the_largest(values):
    assert report.p99(values) >= report.p95(values)
    assert len(values) >= 100 or report.p99(values) == max(values)

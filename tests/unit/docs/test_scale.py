"""The curves of docs/scale.md are those of its report, and stand where the values say."""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "scale.md").read_text()


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    loader = SourceFileLoader("draw_scale", str(ROOT / "tools" / "draw-scale"))
    spec = importlib.util.spec_from_loader("draw_scale", loader)
    assert spec is not None
    module = sys.modules["draw_scale"] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_the_pictures_are_those_of_the_report_and_stand_on_the_page(tool):
    report = json.loads(tool.REPORT.read_text())
    for picture in tool.PICTURES:
        drawn = (tool.FOLDER / picture.file).read_text()
        assert drawn == tool.draw(picture.title, tool.curves_of(picture, report)), "run tools/draw-scale --write"
        assert f"](scale/{picture.file})" in PAGE


def test_every_curve_of_every_picture_was_measured(tool):
    report = json.loads(tool.REPORT.read_text())
    for picture in tool.PICTURES:
        assert [label for label, points in tool.curves_of(picture, report).items() if not points] == []


def test_a_curve_has_a_point_for_each_size_and_the_peer_its_own(tool):
    picture = tool.Picture("x.svg", "s", {"ours": "all created"}, peer="theirs")
    report = [
        {"figure": "1000 nodes: all created", "value": 2.0, "bound": None, "peer": {"value": 3.0}},
        {"figure": "500 nodes: all created", "value": 1.0, "bound": None, "peer": {"value": 1.5}},
        {"figure": "500 nodes: all created late", "value": 9.0, "bound": None, "peer": None},
    ]
    assert tool.curves_of(picture, report) == {
        "ours": [(500, 1.0), (1000, 2.0)],
        "theirs": [(500, 1.5), (1000, 3.0)],
    }


def test_ten_times_as_many_nodes_are_half_the_width_and_zero_lies_on_the_axis(tool):
    middle = (tool.x_of(100) + tool.x_of(10_000)) / 2
    assert tool.x_of(1_000) == pytest.approx(middle, abs=0.1)
    assert tool.y_of(0.0, -1, 1) == tool.y_of(0.1, -1, 1) == tool.HEIGHT - tool.BOTTOM
    assert tool.y_of(10.0, -1, 1) == tool.TOP


@pytest.mark.parametrize(
    ("values", "expected"), [([0.2, 30.0], (-1, 2)), ([0.0, 5.0], (0, 1)), ([], (0, 1)), ([10.0], (1, 2))]
)
def test_the_axis_spans_whole_decades(tool, values, expected):
    assert tool.decades(values) == expected

"""Which versions of chart slurm and of the operator may work together, and what an admin reads where they may not."""

from __future__ import annotations

import msgspec
import pytest
import yaml

from sunkpy import __version__
from sunkpy.core.nodeset.decide import decide_nodeset
from sunkpy.core.nodeset.status import report
from sunkpy.core.nodeset.version_skew import version_skew
from tests.unit.charts.rendering import CHARTS, of_kind, render
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_pod, make_world

NEWER = "chart slurm 0.2.0 with operator 0.1.0: upgrade chart sunkpy, which comes first"


@pytest.mark.parametrize(
    ("chart", "operator", "problem"),
    [
        ("slurm-0.1.0", "0.1.0", ""),
        ("slurm-0.1.7", "0.1.0", ""),
        ("slurm-0.1.0", "0.2.0", ""),  # in the middle of an upgrade
        ("slurm-0.2.0", "0.1.0", NEWER),
        (
            "slurm-1.0.0-rc.1",
            "0.9.0",
            "chart slurm 1.0.0-rc.1 with operator 0.9.0: upgrade chart sunkpy, which comes first",
        ),
        (
            "slurm-0.1.0",
            "0.3.0",
            "chart slurm 0.1.0 with operator 0.3.0: upgrade chart slurm; they may be at most one minor version apart",
        ),
        (
            "slurm-0.9.0",
            "1.0.0",
            "chart slurm 0.9.0 with operator 1.0.0: upgrade chart slurm; they may be at most one minor version apart",
        ),
        ("own-9.9.9", "0.1.0", ""),
        ("slurm-next", "0.1.0", ""),
        ("", "0.1.0", ""),
    ],
)
def test_a_chart_may_be_as_old_as_the_operator_or_one_minor_version_older(chart: str, operator: str, problem: str):
    assert version_skew({"helm.sh/chart": chart} if chart else {}, operator=operator) == problem


def test_the_nodeset_says_so_once_and_is_not_held_up():
    nodeset = make_nodeset()
    labels = {"helm.sh/chart": "slurm-99.0.0"}
    nodeset = msgspec.structs.replace(nodeset, metadata=msgspec.structs.replace(nodeset.metadata, labels=labels))
    world = make_world(nodeset, [make_node(1)], [make_pod(nodeset, 1)])
    status, notices = report(world, decide_nodeset(world))
    text = f"chart slurm 99.0.0 with operator {__version__}: upgrade chart sunkpy, which comes first"
    assert status.condition("VersionSkew").message == text
    assert [(notice.type, notice.reason, notice.message) for notice in notices] == [("Warning", "VersionSkew", text)]
    assert status.condition("Ready").status == "True"
    again = make_world(msgspec.structs.replace(nodeset, status=status), [make_node(1)], [make_pod(nodeset, 1)])
    assert report(again, decide_nodeset(again))[1] == []


def test_charts_and_program_are_of_one_version():
    (nodeset,) = of_kind(render("slurm"), "NodeSet").values()
    assert nodeset["metadata"]["labels"]["helm.sh/chart"] == f"slurm-{__version__}"
    assert {yaml.safe_load(file.read_text())["version"] for file in CHARTS.glob("*/Chart.yaml")} == {__version__}

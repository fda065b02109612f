"""Dashboards and alerts: what Grafana and Prometheus can read, and links that lead somewhere."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.dashboards import EMPTY_WHEN_ALL_IS_WELL, NOTHING_FAILS
from tests.unit.charts.rendering import ROOT, Refused, of_kind, render

BOARDS = ("pool", "nodes", "queue", "job", "control-plane")
ON = {"alerts": {"enabled": True}, "dashboards": {"enabled": True}}


def boards() -> dict[str, dict[str, Any]]:
    maps = of_kind(render("slurm", ON), "ConfigMap")
    return {name: json.loads(maps[f"demo-dashboard-{name}"]["data"][f"{name}.json"]) for name in BOARDS}


def queries() -> Iterator[tuple[str, str]]:
    for name, board in boards().items():
        for panel in board["panels"]:
            for target in panel["targets"]:
                yield f"{name}: {panel['title']}", target["expr"]


def headings(page: str) -> set[str]:
    """Anchors, as GitHub makes them."""
    lines = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


def test_there_are_none_unless_somebody_asks() -> None:
    plain = render("slurm")
    assert not of_kind(plain, "PrometheusRule")
    assert not [name for name in of_kind(plain, "ConfigMap") if "dashboard" in name]


def test_every_alert_leads_to_a_heading_of_the_docs() -> None:
    rule = of_kind(render("slurm", ON), "PrometheusRule")["demo"]
    for alert in rule["spec"]["groups"][0]["rules"]:
        url, _, anchor = alert["annotations"].get("runbook_url", "").partition("#")
        if alert["labels"]["severity"] != "info":
            assert url == "https://sunkpy.dev/docs/troubleshooting"
            assert anchor in headings("docs/troubleshooting.md"), alert["alert"]


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_is_what_grafana_reads(name: str) -> None:
    board = boards()[name]
    assert board["uid"] == f"research-demo-{name}"
    assert [variable["name"] for variable in board["templating"]["list"]][:2] == ["source", "namespace"]
    ids = [panel["id"] for panel in board["panels"]]
    assert ids == list(range(1, len(ids) + 1))
    for panel in board["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        assert panel["datasource"]["uid"] == "${source}"
        assert [target["refId"] for target in panel["targets"]] == [f"s{i}" for i in range(len(panel["targets"]))]
        asks_dcgm = any("DCGM_" in target["expr"] for target in panel["targets"])
        assert panel["description"] == ("Needs dcgm-exporter." if asks_dcgm else "")
    for one, other in itertools.combinations([panel["gridPos"] for panel in board["panels"]], 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        is_above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert is_beside or is_above


def test_a_sidecar_finds_the_dashboards_by_their_labels() -> None:
    mine = ON | {"dashboards": {"enabled": True, "labels": {"grafana": "yes"}}}
    for values, label in ((ON, ("grafana_dashboard", "1")), (mine, ("grafana", "yes"))):
        maps = of_kind(render("slurm", values), "ConfigMap")
        assert all(label in each["metadata"]["labels"].items() for name, each in maps.items() if "dashboard" in name)


def test_what_may_show_nothing_is_a_panel() -> None:
    named = EMPTY_WHEN_ALL_IS_WELL | NOTHING_FAILS
    titles = {f"{name}: {panel['title']}" for name, board in boards().items() for panel in board["panels"]}
    assert named - titles == set()


def test_queries_are_of_one_release() -> None:
    """Those of a job are found by its number; a pod's namespace is not that of the release."""
    for where, query in queries():
        assert "$own" not in query
        if not where.startswith("job:"):
            assert 'namespace="$namespace"' in query, where


def test_runbooks_are_at_an_address() -> None:
    with pytest.raises(Refused, match="runbooks"):
        render("slurm", {"alerts": {"enabled": True, "runbooks": "docs/troubleshooting.md"}})

"""Who scrapes the metrics."""

from __future__ import annotations

import pytest

from tests.unit.charts.rendering import Refused, of_kind, render


def test_nobody_unless_somebody_asks() -> None:
    assert not of_kind(render("slurm"), "PodMonitor")


def test_a_pod_monitor_finds_each_process_of_the_release_and_its_port() -> None:
    wanted = {"enabled": True, "labels": {"release": "prometheus"}, "interval": "1m"}
    manifests = render("slurm", {"podMonitor": wanted})
    (monitor,) = of_kind(manifests, "PodMonitor").values()
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint == {"port": "http", "path": "/metrics", "interval": "1m", "honorLabels": True}
    selector = monitor["spec"]["selector"]
    (parts,) = (each["values"] for each in selector["matchExpressions"])
    pods = {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"]["containers"][0]["ports"]
        for each in (deployment["spec"]["template"] for deployment in of_kind(manifests, "Deployment").values())
        if selector["matchLabels"].items() <= each["metadata"]["labels"].items()
    }
    found = {part for part in parts if any(port["name"] == "http" for port in pods.get(part, ()))}
    assert found >= {"syncer", "scheduler", "accounts"}


def test_the_operator_has_one_of_its_own() -> None:
    assert not of_kind(render("sunkpy"), "PodMonitor")
    manifests = render("sunkpy", {"podMonitor": {"enabled": True, "labels": {"release": "prometheus"}}})
    (monitor,) = of_kind(manifests, "PodMonitor").values()
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint == {"port": "http", "path": "/metrics", "interval": "30s", "honorLabels": True}
    (deployment,) = of_kind(manifests, "Deployment").values()
    assert monitor["spec"]["selector"] == deployment["spec"]["selector"]


def test_an_interval_is_a_time() -> None:
    with pytest.raises(Refused, match="interval"):
        render("slurm", {"podMonitor": {"enabled": True, "interval": "often"}})

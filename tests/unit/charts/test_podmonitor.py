"""Who scrapes the metrics."""

from __future__ import annotations

import pytest
import yaml

from tests.unit.charts.rendering import Refused, of_kind, render


def test_nobody_unless_somebody_asks() -> None:
    for chart in ("slurm", "sunkpy"):
        plain = render(chart)
        assert not {"PodMonitor", "ServiceMonitor"} & {each["kind"] for each in plain}
        assert not [name for name in of_kind(plain, "Service") if name.endswith("-metrics")]


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


@pytest.mark.parametrize("chart", ["slurm", "sunkpy"])
def test_with_a_secret_all_processes_serve_over_tls_and_who_scrapes_has_the_token(chart: str) -> None:
    values: dict[str, object] = {"metricsSecret": "seen", "podMonitor": {"enabled": True}}
    if chart == "slurm":
        plugin = {"gpuSharing": "plugin", "devicePlugin": {"resource": "nvidia.com/gpu"}}
        values |= {"scheduler": plugin, "page": {"enabled": True}}
    manifests = render(chart, values)
    (monitor,) = of_kind(manifests, "PodMonitor").values()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["authorization"] == {"credentials": {"name": "seen", "key": "token"}}
    assert endpoint["tlsConfig"] == {
        "serverName": "sunkpy-metrics",
        "ca": {"secret": {"name": "seen", "key": "ca.crt"}},
    }
    maps = (found.get("data") or {} for found in of_kind(manifests, "ConfigMap").values())
    configs = [yaml.safe_load(data["config.yaml"]) for data in maps if "config.yaml" in data]
    served = [*of_kind(manifests, "Deployment").values(), *of_kind(manifests, "DaemonSet").values()]
    pods = [pod for pod in (each["spec"]["template"]["spec"] for each in served) if "config.yaml" in str(pod)]
    assert len(pods) == len(configs) == (5 if chart == "slurm" else 1)
    for pod, config in zip(pods, configs, strict=True):
        main = pod["containers"][0]
        assert {main[probe]["httpGet"]["scheme"] for probe in ("readinessProbe", "livenessProbe")} == {"HTTPS"}
        (folder,) = (mount["mountPath"] for mount in main["volumeMounts"] if mount["name"] == "metrics")
        (secret,) = (volume["secret"] for volume in pod["volumes"] if volume["name"] == "metrics")
        assert (secret["secretName"], folder) == ("seen", config["http"]["secretFolder"])


@pytest.mark.parametrize(("chart", "parts"), [("slurm", {"syncer", "scheduler", "accounts"}), ("sunkpy", {"operator"})])
def test_a_service_monitor_reads_the_same_pods_by_headless_services(chart: str, parts: set[str]) -> None:
    wanted = {"enabled": True, "labels": {"release": "prometheus"}, "interval": "1m"}
    (pods,) = of_kind(render(chart, {"metricsSecret": "seen", "podMonitor": wanted}), "PodMonitor").values()
    manifests = render(chart, {"metricsSecret": "seen", "serviceMonitor": wanted})
    (monitor,) = of_kind(manifests, "ServiceMonitor").values()
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["endpoints"] == pods["spec"]["podMetricsEndpoints"]
    services = [
        each["spec"]
        for each in of_kind(manifests, "Service").values()
        if monitor["spec"]["selector"]["matchLabels"].items() <= each["metadata"]["labels"].items()
    ]
    found = set()
    for service in services:
        assert service["clusterIP"] == "None"
        assert [(port["name"], port["targetPort"]) for port in service["ports"]] == [("http", "http")]
        for deployment in of_kind(manifests, "Deployment").values():
            labels = deployment["spec"]["template"]["metadata"]["labels"]
            if service["selector"].items() <= labels.items():
                found.add(labels["app.kubernetes.io/component"])
    assert found == parts


@pytest.mark.parametrize("chart", ["slurm", "sunkpy"])
def test_one_of_both_monitors(chart: str) -> None:
    both = {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}
    with pytest.raises(Refused, match="Prometheus gets each series twice"):
        render(chart, both)

"""What the chart has for Prometheus and Grafana, and whom they scrape."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from demo.bring_up import OPERATOR_NAMESPACE
from demo.stack import Stack
from sunkpy.core.model.objects import Pod
from tests.unit.charts.rendering import of_kind, render

PARTS = ("operator", "syncer", "scheduler", "accounts")
ON = {"alerts": {"enabled": True}, "dashboards": {"enabled": True}}


def targets(stack: Stack) -> list[tuple[str, Mapping[str, str]]]:
    """Address and labels of each process, as a PodMonitor would name them."""
    found: list[tuple[str, Mapping[str, str]]] = []
    for namespace in (stack.namespace, OPERATOR_NAMESPACE):
        for pod in stack.kubectl.list(Pod, "pods", "-n", namespace):
            part = pod.labels.get("app.kubernetes.io/component", "")
            if part in PARTS and pod.status.pod_ip and not pod.is_deleting:
                labels = {"namespace": namespace, "container": part, "pod": pod.name}
                found.append((f"{pod.status.pod_ip}:8080", labels))
    return found


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each with its dashboard and title: `pool: Nodes by state`."""
    maps = of_kind(render("slurm", ON), "ConfigMap")
    for name, each in maps.items():
        if "-dashboard-" in name:
            ((file, text),) = each["data"].items()
            for panel in json.loads(text)["panels"]:
                yield f"{file.removesuffix('.json')}: {panel['title']}", panel


def expressions(panel: Mapping[str, Any], words: Mapping[str, str]) -> Iterator[str]:
    """Its queries, with a value for each variable."""
    for target in panel["targets"]:
        expression = target["expr"]
        for variable, value in words.items():
            expression = expression.replace(variable, value)
        yield expression


def groups(namespace: str) -> list[dict[str, Any]]:
    """The alerts, of the Slurm cluster in this namespace."""
    (rule,) = of_kind(render("slurm", ON), "PrometheusRule").values()
    text = json.dumps(rule["spec"]["groups"]).replace('\\"research\\"', f'\\"{namespace}\\"')
    found: list[dict[str, Any]] = json.loads(text)
    return found

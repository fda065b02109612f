"""What the chart has for Prometheus and Grafana, and whom they scrape."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from demo.bring_up import OPERATOR_NAMESPACE
from demo.stack import Stack
from sunkpy.core.model.objects import Pod
from tests.unit.charts.rendering import of_kind, render

PARTS = ("operator", "syncer", "scheduler", "accounts")
EMPTY_WHEN_ALL_IS_WELL = {
    "pool: Pods evicted, by reason",
    "nodes: slurmd pods that the operator deleted, by reason",
    "queue: Nodes that waiting jobs lack",
    "nodes: Sick nodes by state of their health",
    "nodes: Time that sick nodes spent in each state in 7 days",
    "nodes: GPU and cpu hours that jobs lost because nodes failed, over 7 days",
}
NOTHING_FAILS = {"control-plane: Failed requests to slurmrestd, by code"}
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


def queries(words: Mapping[str, str], *, without: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Dashboard and title of each panel (`pool: Nodes by state`) with each of its queries, a value for each variable.

    Without those that ask another exporter, that may be empty while all is well, or whose name is in `without`.
    """
    for name, each in of_kind(render("slurm", ON), "ConfigMap").items():
        if "-dashboard-" not in name:
            continue
        ((file, text),) = each["data"].items()
        for panel in json.loads(text)["panels"]:
            where = f"{file.removesuffix('.json')}: {panel['title']}"
            if not panel["description"] and where not in EMPTY_WHEN_ALL_IS_WELL and where not in without:
                for target in panel["targets"]:
                    yield where, functools.reduce(lambda text, word: text.replace(*word), words.items(), target["expr"])


def groups(namespace: str) -> list[dict[str, Any]]:
    """The alerts, of the Slurm cluster in this namespace."""
    (rule,) = of_kind(render("slurm", ON), "PrometheusRule").values()
    text = json.dumps(rule["spec"]["groups"]).replace('\\"research\\"', f'\\"{namespace}\\"')
    found: list[dict[str, Any]] = json.loads(text)
    return found

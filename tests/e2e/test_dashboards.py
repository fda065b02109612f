"""Every query of the dashboards and alerts, asked of a real Prometheus that scrapes a cluster with work in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from demo.bring_up import OPERATOR_NAMESPACE
from demo.stack import Stack
from devcluster.waiting import NotYet, wait
from sunkpy.core.model.objects import Pod
from tests.e2e import workloads
from tests.prometheus import Prometheus, scraping
from tests.unit.charts.rendering import of_kind, render

pytestmark = [pytest.mark.e2e, pytest.mark.long]

PARTS = ("operator", "syncer", "scheduler", "accounts")
EMPTY_WHEN_ALL_IS_WELL = {
    "pool: Pods evicted, by reason",
    "nodes: slurmd pods that left, by reason",
    "control-plane: Those that failed, by code",
}
ON = {"alerts": {"enabled": True}, "dashboards": {"enabled": True}}


@pytest.fixture
def work(stack: Stack) -> Iterator[dict[str, str]]:
    """A pod and a job that run, one that waits, and a drained node."""
    busy = stack.sbatch("--gres=gpu:1", script="sleep 600")
    held = stack.sbatch("--hold", script="true")
    pod = workloads.pod(
        "seen", image=stack.images["sunkpy"], scheduler=stack.scheduler_name, command=["sleep", "600"],
        restart_policy="Always",
    )  # fmt: skip
    stack.kubectl.apply(pod)
    drained = ""
    try:
        stack.wait_for_job(busy, "RUNNING")
        ready = f"--for=condition=Ready --timeout=60s pod/seen -n {workloads.NAMESPACE}"
        stack.kubectl("wait", *ready.split())
        drained = next(name for name, state in stack.slurm_nodes().items() if state["State"].startswith("IDLE"))
        stack.scontrol("update", f"nodename={drained}", "state=drain", "reason=disk")
        yield {"$namespace": stack.namespace, "$node": drained, "$slurmjob": str(busy)}
    finally:
        if drained:
            stack.scontrol("update", f"nodename={drained}", "state=resume")
        stack.cancel_jobs([busy, held])
        stack.kubectl("delete", "pod", "seen", "-n", workloads.NAMESPACE, "--wait=true")


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
    maps = of_kind(render("slurm", ON), "ConfigMap")
    for name, each in maps.items():
        if "-dashboard-" in name:
            ((file, text),) = each["data"].items()
            for panel in json.loads(text)["panels"]:
                yield f"{file.removesuffix('.json')}: {panel['title']}", panel


def ask(prometheus: Prometheus, words: Mapping[str, str]) -> bool:
    """Raises NotYet with the panels that show nothing."""
    nothing = []
    for where, panel in panels():
        if panel["description"] or where in EMPTY_WHEN_ALL_IS_WELL:  # another exporter's
            continue
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "1m")
            for variable, value in words.items():
                expression = expression.replace(variable, value)
            if not prometheus.query(expression):
                nothing.append(f"{where}: {expression}")
    if nothing:
        raise NotYet("\n".join(nothing))
    return True


def test_every_panel_shows_something_and_every_alert_can_be_judged(
    stack: Stack, work: dict[str, str], tmp_path: Path
) -> None:
    (rule,) = of_kind(render("slurm", ON), "PrometheusRule").values()
    text = json.dumps(rule["spec"]["groups"]).replace('\\"research\\"', f'\\"{stack.namespace}\\"')
    with scraping(tmp_path, targets(stack), json.loads(text)) as prometheus:
        wait(lambda: ask(prometheus, work), timeout_s=150, every_s=5, what="data in every panel")
        rules = prometheus.rules()
    assert len(rules) == len(rule["spec"]["groups"][0]["rules"])
    assert [each["name"] for each in rules if each["health"] != "ok"] == []
    calling = {each["name"]: each["alerts"] for each in rules if each["state"] == "firing"}
    assert calling == {}, calling

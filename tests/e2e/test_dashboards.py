"""Every query of the dashboards and alerts, asked of a real Prometheus that scrapes a cluster with work in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from demo.stack import Stack
from devcluster.waiting import NotYet, wait
from tests.e2e import workloads
from tests.e2e.dashboards import NOTHING_FAILS, groups, queries, targets
from tests.prometheus import Prometheus, scraping

pytestmark = [pytest.mark.e2e, pytest.mark.long]


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


def ask(prometheus: Prometheus, words: Mapping[str, str]) -> bool:
    """Raises NotYet with the panels that show nothing."""
    asked = queries({"$__rate_interval": "1m", **words}, without=NOTHING_FAILS)
    nothing = [f"{where}: {each}" for where, each in asked if not prometheus.query(each)]
    if nothing:
        raise NotYet("\n".join(nothing))
    return True


def test_every_panel_shows_something_and_every_alert_can_be_judged(
    stack: Stack, work: dict[str, str], tmp_path: Path
) -> None:
    alerts = groups(stack.namespace)
    with scraping(tmp_path, targets(stack), alerts) as prometheus:
        wait(lambda: ask(prometheus, work), timeout_s=150, every_s=5, what="data in every panel")
        for _, each in queries({"$__rate_interval": "1m", **work}):
            prometheus.query(each)  # Prometheus takes it, also where nothing has failed
        rules = prometheus.rules()
    assert len(rules) == len(alerts[0]["rules"])
    assert [each["name"] for each in rules if each["health"] != "ok"] == []
    calling = {each["name"]: each["alerts"] for each in rules if each["state"] == "firing"}
    assert calling == {}, calling

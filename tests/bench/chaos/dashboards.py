"""Do the dashboards and alerts of the chart show what happens? Asked of a real Prometheus that scrapes the run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from demo.bring_up import OPERATOR_NAMESPACE
from demo.stack import Stack
from tests.bench import report
from tests.e2e.dashboards import PARTS, expressions, groups, panels
from tests.prometheus import Prometheus, scraping

NO_GPUS = "job: "
"""The dashboard of one job begins with its GPUs, and no job of the load asks for one."""
EMPTY_WHEN_ALL_IS_WELL = {"pool: Pods evicted, by reason", "nodes: slurmd pods that left, by reason"}
_META = "__meta_kubernetes_pod_"


@contextlib.contextmanager
def scraped(stack: Stack, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that finds the pods as one for PodMonitors does, whatever dies."""
    found = {
        "role": "pod", "kubeconfig_file": str(stack.kubeconfig),
        "namespaces": {"names": [stack.namespace, OPERATOR_NAMESPACE]},
    }  # fmt: skip
    part = f"{_META}label_app_kubernetes_io_component"
    wanted = {"source_labels": [f"{_META}container_port_name", part], "regex": f"http;({'|'.join(PARTS)})"}
    labels = {"namespace": "__meta_kubernetes_namespace", "container": part, "pod": f"{_META}name"}
    how = {
        "kubernetes_sd_configs": [found],
        "relabel_configs": [
            {"action": "keep", **wanted},
            *({"source_labels": [source], "target_label": name} for name, source in labels.items()),
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    with scraping(folder, [], groups(stack.namespace), every="5s", how=how) as prometheus:
        yield prometheus


def figures(prometheus: Prometheus, words: Mapping[str, str], *, since_s: float) -> list[report.Figure]:
    """What shows nothing in all of the run, and what cannot be judged: nothing may be."""
    words = {"$__rate_interval": f"{max(60, int(time.time() - since_s))}s", **words}
    shown, nothing = 0, []
    for where, panel in panels():
        if panel["description"] or where in EMPTY_WHEN_ALL_IS_WELL or where.startswith(NO_GPUS):
            continue
        for asked in expressions(panel, words):
            shown += 1
            if not prometheus.query(asked, since_s=since_s):
                nothing.append(f"{where}: {asked}")
    rules = prometheus.rules()
    broken = [f"{each['name']}: {each['lastError']}" for each in rules if each["health"] != "ok"]
    alerts = prometheus.query('ALERTS{alertstate="firing"}', since_s=since_s)
    fired = sorted({each["metric"]["alertname"] for each in alerts})
    n = len(rules)
    return [
        report.at_most(
            "queries of dashboards without data", len(nothing), unit="", bound=0, n=shown,
            limited_by="; ".join(nothing),
        ),
        report.at_most(
            "alerts that cannot be judged", len(broken), unit="", bound=0, n=n, limited_by="; ".join(broken)
        ),
        *(report.observed(f"alert {name} fired", 1, unit="", n=n) for name in fired),
    ]  # fmt: skip

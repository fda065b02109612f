"""Whether the chart's dashboards and alerts show what happens in a run, asked of a real Prometheus that scrapes it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from demo.stack import Stack
from devcluster.shell import CommandFailed
from tests.bench import report
from tests.e2e.dashboards import groups, queries, targets
from tests.prometheus import Prometheus, scraping

NO_GPUS = "job: "
"""The prefix of the job dashboard's queries. They are skipped, because they need a job with GPUs, and no job of the
load has any.
"""
TOO_SHORT = {
    "pool: What jobs wait for",
    "queue: Waiting jobs by partition and reason",
    "nodes: Why $node takes no work",
    "nodes: All nodes that take no work",
    "nodes: Nodes that were drained the longest in 7 days, by state",
    "nodes: Time for which nodes were drained in 7 days, by NodeSet",
}
"""Queries that may have no data in a short run: on a fast machine no job waits, and no fault drains a node, for longer
than two scrapes. The e2e tests check them with a waiting job and a drained node.
"""
_EACH_S = 5.0


@contextlib.contextmanager
def scraped(stack: Stack, folder: Path) -> Iterator[Prometheus]:
    """Yield a Prometheus that scrapes the stack's pods. Debian's Prometheus cannot ask the apiserver, so a thread
    keeps its file of targets up to date.
    """
    file, done = folder / "targets.json", threading.Event()

    def tell() -> None:
        with contextlib.suppress(CommandFailed):  # the apiserver is away: the last known targets stay
            found = [{"targets": [address], "labels": labels} for address, labels in targets(stack)]
            file.with_suffix(".new").write_bytes(msgspec.json.encode(found))
            file.with_suffix(".new").rename(file)

    def keep_telling() -> None:
        while not done.wait(_EACH_S):
            tell()

    tell()
    teller = threading.Thread(target=keep_telling, name="targets")
    how = {"file_sd_configs": [{"files": [str(file)]}]}
    with scraping(folder, [], groups(stack.namespace), every=f"{_EACH_S:.0f}s", how=how) as prometheus:
        teller.start()
        try:
            yield prometheus
        finally:
            done.set()
            teller.join()


def figures(prometheus: Prometheus, words: Mapping[str, str], *, since_s: float) -> list[report.Figure]:
    """Return the queries of dashboards that had no data in the whole run, and the alerts that Prometheus cannot
    evaluate: both must be none.
    """
    words = {"$__rate_interval": f"{max(60, int(time.time() - since_s))}s", **words}
    asked = [(where, each) for where, each in queries(words, without=TOO_SHORT) if not where.startswith(NO_GPUS)]
    nothing = [f"{where}: {each}" for where, each in asked if not prometheus.query(each, since_s=since_s)]
    rules = prometheus.rules()
    broken = [f"{each['name']}: {each['lastError']}" for each in rules if each["health"] != "ok"]
    alerts = prometheus.query('ALERTS{alertstate="firing"}', since_s=since_s)
    fired = sorted({each["metric"]["alertname"] for each in alerts})
    n = len(rules)
    return [
        report.none("queries of dashboards without data", nothing, n=len(asked)),
        report.none("alerts that cannot be judged", broken, n=n),
        *(report.observed(f"alert {name} fired", 1, unit="", n=n) for name in fired),
    ]

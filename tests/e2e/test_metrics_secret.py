"""Metrics for those who have the token, over TLS: probes of the kubelet, and Prometheus as the PodMonitor has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from demo.stack import ROOT, Stack
from devcluster.waiting import wait_until_equal
from tests.e2e.dashboards import targets
from tests.prometheus import scraping
from tests.unit.charts.rendering import of_kind, render
from tests.unit.runtime.certificates import NAME, TOKEN, trust_in, write_certificate

pytestmark = pytest.mark.e2e

SECRET = "e2e-metrics"


@pytest.fixture
def secret(stack: Stack, tmp_path: Path) -> Iterator[Path]:
    """Folder with what the Secret has, once all processes are ready with it."""
    where = ("-n", stack.namespace)
    write_certificate(tmp_path)
    (tmp_path / "ca.crt").write_bytes((tmp_path / "tls.crt").read_bytes())
    stack.kubectl("create", "secret", "generic", SECRET, *where, f"--from-file={tmp_path}")
    before = stack.helm("history", stack.release, *where, "--max=1").splitlines()[-1].split()[0]
    chart, ready = str(ROOT / "charts" / "slurm"), ("--no-hooks", "--wait", "--timeout", "2m")
    try:
        stack.helm("upgrade", stack.release, chart, *where, "--reuse-values", f"--set=metricsSecret={SECRET}", *ready)
        yield tmp_path
    finally:
        stack.helm("rollback", stack.release, before, *where, *ready)
        stack.kubectl("delete", "secret", SECRET, *where)


def test_prometheus_reads_what_the_pod_monitor_names_and_others_nothing(
    stack: Stack, secret: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    values = {"metricsSecret": SECRET, "podMonitor": {"enabled": True}}
    (monitor,) = of_kind(render("slurm", values), "PodMonitor").values()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    tls, credentials = endpoint["tlsConfig"], endpoint["authorization"]["credentials"]
    how = {
        "scheme": endpoint["scheme"],
        "authorization": {"credentials_file": str(secret / credentials["key"])},
        "tls_config": {"server_name": tls["serverName"], "ca_file": str(secret / tls["ca"]["secret"]["key"])},
    }
    found = [each for each in targets(stack) if each[1]["namespace"] == stack.namespace]
    with scraping(tmp_path_factory.mktemp("prometheus"), found, how=how) as prometheus:
        up = {labels["pod"] for _, labels in found}
        # Each was read once: Prometheus gives a scrape only the second until the next one.
        read = "max_over_time(up[10m]) == 1"
        wait_until_equal(
            lambda: {each["metric"]["pod"] for each in prometheus.query(read)}, up, timeout_s=60, what="scrapes"
        )
    with httpx.Client(verify=trust_in(secret), trust_env=False, timeout=30) as client:
        for token, status in (("", 401), ("x", 401), (TOKEN, 200)):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            url, name = f"https://{found[0][0]}/metrics", {"sni_hostname": NAME}
            assert client.get(url, headers=headers, extensions=name).status_code == status

"""Prometheus and promtool: those of this machine, or Debian's, unpacked only, as its package starts a service."""

from __future__ import annotations

import contextlib
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

from devcluster.shell import run
from devcluster.state import default_cache, locked
from devcluster.waiting import wait_until
from tests.ports import free_ports


@functools.cache
def program(name: str) -> str:
    """Where `prometheus` or `promtool` is."""
    found = shutil.which(name)
    if found:
        return found
    folder = default_cache() / "prometheus"
    with locked(default_cache() / "packages.lock"):  # as of all that calls apt, which serves one caller at a time
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=default_cache()) as at:
                run(["apt-get", "update", "-q"], timeout_s=600)
                run(["apt-get", "download", "-q", "prometheus"], cwd=Path(at), timeout_s=600)
                (package,) = Path(at).glob("*.deb")
                run(["dpkg-deb", "--extract", str(package), f"{at}/unpacked"])
                Path(at, "unpacked").rename(folder)
    return str(folder / "usr" / "bin" / name)


class Prometheus:
    """One that answers on loopback."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an expression now.

        Raises:
            AssertionError: Prometheus refused it.
        """
        answer = self._client.get("/api/v1/query", params={"query": expression}).json()
        assert answer["status"] == "success", f"{expression}: {answer.get('error')}"
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        """All rules with their health."""
        groups = self._client.get("/api/v1/rules").json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def is_ready(self) -> bool:
        """It answers queries."""
        with contextlib.suppress(httpx.HTTPError):
            return self._client.get("/-/ready").is_success
        return False


@contextlib.contextmanager
def scraping(
    folder: Path,
    targets: Sequence[tuple[str, Mapping[str, str]]],
    groups: Sequence[object] = (),
    *,
    how: Mapping[str, object] | None = None,
) -> Iterator[Prometheus]:
    """One that scrapes these addresses, with these labels each, and keeps these groups of rules.

    `how`: further keys of a scrape_config, such as what finds more addresses.
    """
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": list(groups)}))
    configs = [{"targets": [address], "labels": dict(labels)} for address, labels in targets]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules.yaml")],
        "scrape_configs": [{"job_name": "pods", "honor_labels": True, "static_configs": configs, **(how or {})}],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    flags = {
        "config.file": folder / "prometheus.yaml",
        "storage.tsdb.path": folder / "data",
        "web.listen-address": address,
    }
    argv = [program("prometheus"), *(f"--{key}={value}" for key, value in flags.items())]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(argv, stdout=log, stderr=log) as process,
        httpx.Client(base_url=f"http://{address}", timeout=30) as client,
    ):
        try:
            prometheus = Prometheus(client)
            assert wait_until(prometheus.is_ready, timeout_s=60), (folder / "log").read_text()[-2000:]
            yield prometheus
        finally:
            process.terminate()
            process.wait(timeout=30)

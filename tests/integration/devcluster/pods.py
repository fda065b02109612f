"""kubectl and pods for tests of a real cluster."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from devcluster import Cluster

PROBE = "docker.io/sunkpy/probe:1"
ROOT = Path("/var/lib/skd-test")


class Kubectl:
    """kubectl of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def __call__(self, *argv: str, stdin: str | None = None) -> str:
        return self.run(*argv, stdin=stdin, check=True).stdout

    def run(self, *argv: str, stdin: str | None = None, check: bool = False) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [str(self.cluster.bin / "kubectl"), f"--kubeconfig={self.cluster.kubeconfig}", *argv],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(argv)}: {done.stderr}")
        return done

    def get(self, *argv: str) -> dict:
        return json.loads(self("get", *argv, "-o", "json"))

    def apply(self, *objects: dict) -> None:
        self("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))


def probe_pod(name: str, *, node: str, **spec: object) -> dict:
    container = {
        "name": "probe",
        "image": PROBE,
        "imagePullPolicy": "Never",
        "command": ["/probe", "serve", ":8080"],
    } | spec.pop("container", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        }
        | spec,
    }


def eventually(condition: Callable[[], bool], *, within_s: float, what: str) -> float:
    """Wait for a fact of the real world; returns how long it took."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > within_s:
            pytest.fail(f"not within {within_s:g} s: {what}")
        time.sleep(0.1)
    return time.monotonic() - begin

"""Login pods of one's own on a real apiserver: the rights of the chart are enough and no more, and helm wakes nobody.

There is no controller and no kubelet: the test makes the pods and says how their sshd ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from devcluster.waiting import wait_until
from tests.integration.apiserver import Apiserver
from tests.integration.test_immutable_values import make_keys
from tests.ports import free_ports
from tests.unit.charts.rendering import CHARTS, helm, with_images

pytestmark = pytest.mark.integration

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBGPPXOXcMTZaPZIqgVbxFGqbVLYLHjwZdSpIrVTSLxX"
PODS = "/api/v1/namespaces/research/pods"
SETS = "/apis/apps/v1/namespaces/research/statefulsets"
ANN, BOB = "demo-login-ann", "demo-login-bob"


class Release:
    """Chart slurm as release `demo` in namespace `research`, and its process for login pods as its service account."""

    def __init__(self, folder: Path) -> None:
        self.api = Apiserver(folder, {"logins": "system:serviceaccount:research:demo-logins"})
        self._folder = folder
        self.deploy("one")
        self.port, health = free_ports(2)
        text = self.api.ask("admin", "GET", "/api/v1/namespaces/research/configmaps/demo-logins").json()
        config = yaml.safe_load(text["data"]["config.yaml"])
        config |= {"requestsPort": self.port, "http": {"port": health}, "log": {"format": "console"}}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        environment = os.environ | {"KUBECONFIG": str(self.api.kubeconfig("logins")), "POD_NAME": "demo-logins"}
        program = (str(Path(sys.executable).with_name("sunkpy")), "logins", f"--config={folder / 'config.yaml'}")
        with (folder / "logins.log").open("ab") as log:
            self._process = subprocess.Popen(program, env=environment, stdout=log, stderr=log)
        assert wait_until(lambda: _says_ok(health), timeout_s=60, every_s=0.1), self.log()

    def deploy(self, image: str) -> None:
        """helm, without its hooks, for nobody would run their Jobs."""
        people = {name: {"uid": uid, "sshKeys": [KEY]} for name, uid in (("ann", 2001), ("bob", 2002))}
        own = {"enabled": True, "everybody": True, "users": {"bob": {"idleMinutes": 0}}, "defaults": {"image": image}}
        values = {"users": {"people": people}, "login": {"perUser": own}, "nodeSets": {"compute": None}}
        text = yaml.safe_dump(with_images("slurm", values))
        argv = (
            helm(), "upgrade", "--install", "demo", str(CHARTS / "slurm"), "--namespace=research", "--create-namespace",
            "--no-hooks", f"--kubeconfig={self.api.kubeconfig('admin')}", "--values=-",
        )  # fmt: skip
        subprocess.run(argv, input=text, text=True, check=True, capture_output=True)
        make_keys(self.api)

    def workload(self, name: str) -> Any:
        return self.api.ask("admin", "GET", f"{SETS}/{name}").json()

    def has_replicas(self, name: str, count: int) -> bool:
        return bool(wait_until(lambda: self.workload(name)["spec"]["replicas"] == count, timeout_s=60, every_s=0.1))

    def put_pod(self, name: str, sshd: object) -> None:
        """As the StatefulSet controller makes it; then as the kubelet tells of it."""
        template = self.workload(name)["spec"]["template"]
        body = template | {"apiVersion": "v1", "kind": "Pod"}
        body["metadata"] = {"name": f"{name}-0", "labels": template["metadata"]["labels"]}
        self.api.make(PODS, body)
        status = {"name": "sshd", "image": "x", "imageID": "", "ready": True, "restartCount": 0, "state": sshd}
        conditions = [{"type": "Ready", "status": "True"}]
        told = {"phase": "Running", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}], "conditions": conditions}
        self.api.ask("admin", "PATCH", f"{PODS}/{name}-0/status", {"status": told | {"containerStatuses": [status]}})

    def has_pod(self, name: str) -> bool:
        return self.api.ask("admin", "GET", f"{PODS}/{name}-0").is_success

    def asked(self, person: str) -> str:
        return httpx.post(f"http://127.0.0.1:{self.port}/logins/v1/{person}", timeout=60).text

    def log(self) -> str:
        return (self._folder / "logins.log").read_text()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)
        self.api.stop()


def _says_ok(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").is_success
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    release = Release(tmp_path_factory.mktemp("release"))
    yield release
    release.stop()


def test_the_life_of_a_pod_with_the_rights_that_the_chart_gives_and_upgrades_between(release: Release):
    assert release.has_replicas(ANN, 0), release.log()
    assert release.workload(BOB)["spec"]["replicas"] == 1, "idleMinutes: 0"

    before = release.workload(ANN)["metadata"]["generation"]
    release.deploy("two")
    after = release.workload(ANN)
    assert after["spec"]["template"]["spec"]["containers"][0]["image"] == "two"
    assert (after["metadata"]["generation"] > before, after["spec"]["replicas"]) == (True, 0), "helm woke it"

    assert release.asked("ann") == "your login pod is being started"
    assert release.has_replicas(ANN, 1), release.log()
    release.put_pod(ANN, {"running": {"startedAt": "2026-11-22T00:00:00Z"}})
    assert wait_until(lambda: release.asked("ann") == "10.0.0.9 2222", timeout_s=60, every_s=0.1), release.log()
    release.deploy("three")
    assert (release.workload(ANN)["spec"]["replicas"], release.has_pod(ANN)) == (1, True), "helm ended it"

    for name, code in ((ANN, 81), (ANN, 80), (BOB, 81)):
        release.api.ask("admin", "DELETE", f"{PODS}/{name}-0")
        release.put_pod(name, {"terminated": {"exitCode": code}})
        if code == 81:
            assert wait_until(lambda name=name: not release.has_pod(name), timeout_s=60, every_s=0.1), release.log()
        assert release.has_replicas(name, int(code == 81)), release.log()
    assert "failed" not in release.log()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", PODS, {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "x", "image": "x"}]}}),
        ("PATCH", f"{SETS}/{ANN}", {"spec": {"replicas": 1}}),
        ("PATCH", f"{SETS}/demo-login/scale", {"spec": {"replicas": 0}}),
        ("DELETE", f"{PODS}/demo-login-0", None),
        ("GET", f"{SETS}/{ANN}/scale", None),
        ("GET", "/api/v1/namespaces/research/secrets", None),
        ("POST", f"{PODS}/{ANN}-0/exec?command=id", None),
        ("GET", "/api/v1/pods", None),
    ],
)
def test_the_process_may_do_nothing_else(release: Release, method: str, path: str, body: object):
    assert release.api.ask("logins", method, path, body).status_code == 403

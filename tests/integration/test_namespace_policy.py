"""The policy of the chart that no namespace gives itself to somebody, on a real apiserver with no cluster around it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from devcluster.binaries import KUBERNETES, Binaries
from devcluster.state import default_cache
from devcluster.waiting import wait_until
from tests.integration.slurm.daemons import free_ports
from tests.unit.charts.rendering import render

pytestmark = pytest.mark.integration

VALUES = {
    "scheduler": {
        "annotatedAccess": True,
        "access": [{"namespaces": ["chem"], "users": ["ann"]}, {"namespaceLabels": {"team": "ml"}}],
    }
}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
ROLES = {
    "maker": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create", "patch"]}],
    "setter": [
        {"apiGroups": ["sunkpy.dev"], "resources": ["namespaceaccess"], "resourceNames": ["lab"], "verbs": ["set"]}
    ],
}
SAYS = "only who may set namespaceaccess.sunkpy.dev makes a namespace that scheduler.access names, or sets "


class Apiserver:
    """etcd and kube-apiserver on loopback; `admin` may do all, `tenant` makes and changes namespaces."""

    def __init__(self, folder: Path, programs: Path) -> None:
        api, client, peer = free_ports(3)
        for command in (["genrsa", "-out", "sa.key", "2048"], ["rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub"]):
            subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)
        (folder / "tokens.csv").write_text('admin,admin,1,"system:masters"\ntenant,tenant,2\n')
        etcd = f"http://127.0.0.1:{client}"
        members = f"http://127.0.0.1:{peer}"
        self._processes = [
            self._start(folder, "etcd", f"--data-dir={folder}/etcd", f"--listen-client-urls={etcd}",
                        f"--advertise-client-urls={etcd}", f"--listen-peer-urls={members}",
                        f"--initial-advertise-peer-urls={members}", f"--initial-cluster=default={members}",
                        "--unsafe-no-fsync"),
            self._start(folder, str(programs / "kube-apiserver"), f"--etcd-servers={etcd}", "--cert-dir=pki",
                        "--bind-address=127.0.0.1", f"--secure-port={api}", "--service-cluster-ip-range=10.99.0.0/24",
                        "--token-auth-file=tokens.csv", "--authorization-mode=RBAC", "--service-account-issuer=https://x",
                        "--service-account-key-file=sa.pub", "--service-account-signing-key-file=sa.key",
                        "--feature-gates=WatchList=false"),
        ]  # fmt: skip
        self.url = f"https://127.0.0.1:{api}"
        assert wait_until(self._is_ready, timeout_s=180, every_s=0.5), (folder / "log").read_text()[-2000:]

    @staticmethod
    def _start(folder: Path, *argv: str) -> subprocess.Popen[bytes]:
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _is_ready(self) -> bool:
        try:
            return self.ask("admin", "GET", "/readyz").is_success
        except httpx.TransportError:
            return False

    def ask(self, user: str, method: str, path: str, body: object = None) -> httpx.Response:
        """The answer to a request of a user."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {user}", "Content-Type": kind}
        content = json.dumps(body) if body is not None else None
        return httpx.request(method, self.url + path, content=content, headers=headers, verify=False, timeout=60)

    def make(self, path: str, body: object) -> None:
        """As an administrator."""
        done = self.ask("admin", "POST", path, body)
        assert done.is_success, done.text

    def stop(self) -> None:
        """Both end."""
        for process in reversed(self._processes):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    if shutil.which("etcd") is None:
        pytest.skip("needs etcd")
    binaries = Binaries(default_cache())
    binaries.ensure([KUBERNETES], progress=print)
    apiserver = Apiserver(tmp_path_factory.mktemp("apiserver"), binaries.kubernetes)
    try:
        give_rights(apiserver)
        yield apiserver
    finally:
        apiserver.stop()


def give_rights(apiserver: Apiserver) -> None:
    """The tenant's, and the policy of the chart once it holds."""
    for name, rules in ROLES.items():
        apiserver.make(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        tenant = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}
        apiserver.make(
            f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [tenant]}
        )
    for each in render("slurm", VALUES):
        if each["metadata"]["name"].endswith("-namespace-access"):
            plural = (
                "validatingadmissionpolicies"
                if each["kind"].endswith("Policy")
                else "validatingadmissionpolicybindings"
            )
            apiserver.make(f"{ADMISSION}/{plural}", each)
    assert wait_until(lambda: created(apiserver, "chem").status_code == 403, timeout_s=60, every_s=0.5)


def created(apiserver: Apiserver, name: str, user: str = "tenant", **metadata: object) -> httpx.Response:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}
    return apiserver.ask(user, "POST", "/api/v1/namespaces?dryRun=All", body)


def changed(apiserver: Apiserver, name: str, user: str = "tenant", **metadata: object) -> httpx.Response:
    return apiserver.ask(user, "PATCH", f"/api/v1/namespaces/{name}", {"metadata": metadata})


CLAIMS: list[dict[str, object]] = [
    *(
        {"annotations": {f"sunkpy.dev/{kind}": "ann"}}
        for kind in ("users", "accounts", "partitions", "qos", "reservations")
    ),
    {"labels": {"team": "ml"}},
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_no_namespace_gives_itself_to_somebody(apiserver: Apiserver, claim: dict[str, object]) -> None:
    refused = created(apiserver, "mine", **claim)
    assert (refused.status_code, SAYS in refused.json()["message"]) == (403, True)
    assert created(apiserver, "mine", user="admin", **claim).is_success
    apiserver.ask("admin", "POST", "/api/v1/namespaces", {"metadata": {"name": "given"}})
    assert changed(apiserver, "given", **claim).status_code == 403
    assert changed(apiserver, "given", user="admin", **claim).is_success
    (field,) = claim
    keys = dict.fromkeys(claim[field])  # type: ignore[call-overload]
    assert changed(apiserver, "given", **{field: keys}).status_code == 403, "nor does it take it away"
    assert changed(apiserver, "given", **{field: dict.fromkeys(keys, "x")}).status_code == 403
    assert changed(apiserver, "given", user="admin", **{field: keys}).is_success


def test_nobody_makes_a_namespace_that_the_map_names(apiserver: Apiserver) -> None:
    assert created(apiserver, "chem").status_code == 403
    assert created(apiserver, "chem", user="admin").is_success


def test_all_else_of_namespaces_is_as_it_was(apiserver: Apiserver) -> None:
    assert created(apiserver, "other", labels={"a": "b"}, annotations={"c": "d", "sunkpy.dev/other": "e"}).is_success
    apiserver.ask("admin", "POST", "/api/v1/namespaces", {"metadata": {"name": "kept"}})
    assert changed(apiserver, "kept", user="admin", annotations={"sunkpy.dev/users": "ann"}).is_success
    assert changed(apiserver, "kept", labels={"x": "y"}).is_success


def test_whom_an_administrator_trusts_with_a_namespace_sets_its_own_alone(apiserver: Apiserver) -> None:
    assert created(apiserver, "lab", annotations={"sunkpy.dev/users": "ann"}).is_success
    assert created(apiserver, "lab2", annotations={"sunkpy.dev/users": "ann"}).status_code == 403

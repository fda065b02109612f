"""A real apiserver with its etcd and without a cluster: no controller changes anything there."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from devcluster.binaries import KUBERNETES, Binaries
from devcluster.state import default_cache
from devcluster.waiting import wait_until
from tests.ports import free_ports

_NONE: Mapping[str, str] = {}
_PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "CustomResourceDefinition": "customresourcedefinitions",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


def spawn(
    argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start a program that is killed with this process; `env` instead of ours, both outputs to the end of `log`."""
    killed = ["setpriv", "--pdeathsig", "KILL", *argv]
    with log.open("ab") as said:
        return subprocess.Popen(killed, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=said, stderr=said)


class Apiserver:
    """Both on loopback, with what they keep in a folder. A token of `users` is that of the user named after it, with
    a group of `groups`. `flags` are more of kube-apiserver's. Both end with this process.
    """

    def __init__(
        self, folder: Path, users: Mapping[str, str], groups: Mapping[str, str] = _NONE, *, flags: Sequence[str] = ()
    ) -> None:
        if shutil.which("etcd") is None:
            pytest.skip("needs etcd")
        binaries = Binaries(default_cache())
        binaries.ensure([KUBERNETES], progress=print)
        api, client, peer = free_ports(3)
        for command in (["genrsa", "-out", "sa.key", "2048"], ["rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub"]):
            subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)
        known = [f'{token},{user},{token},"{groups.get(token, "")}"' for token, user in users.items()]
        tokens = ['admin,admin,0,"system:masters"', *known]
        (folder / "tokens.csv").write_text("\n".join(tokens))
        etcd = f"http://127.0.0.1:{client}"
        members = f"http://127.0.0.1:{peer}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._folder, self._kubernetes = folder, binaries.kubernetes
        self.start(
            "etcd", f"--data-dir={folder}/etcd", f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={members}", f"--initial-advertise-peer-urls={members}",
            f"--initial-cluster=default={members}", "--unsafe-no-fsync", "--quota-backend-bytes=4294967296",
        )  # fmt: skip
        self.start(
            self.kubernetes("kube-apiserver"), f"--etcd-servers={etcd}", "--cert-dir=pki", "--bind-address=127.0.0.1",
            f"--secure-port={api}", "--service-cluster-ip-range=10.99.0.0/24", "--token-auth-file=tokens.csv",
            "--authorization-mode=RBAC", "--service-account-issuer=https://x", "--service-account-key-file=sa.pub",
            "--service-account-signing-key-file=sa.key", "--feature-gates=WatchList=false", "--allow-privileged=true",
            *flags,
        )  # fmt: skip
        self.url = f"https://127.0.0.1:{api}"
        assert wait_until(self._is_ready, timeout_s=180, every_s=0.5), (folder / "kube-apiserver.log").read_text()[
            -2000:
        ]

    def kubernetes(self, program: str) -> str:
        """Where a program of Kubernetes is."""
        return str(self._kubernetes / program)

    def start(self, program: str, *arguments: str, env: Mapping[str, str] = _NONE) -> None:
        """Start a program beside them, under its own name."""
        name, whole = Path(program).name, {**os.environ, "HOME": str(self._folder), **env}
        log = self._folder / f"{name}.log"
        self.processes[name] = spawn([program, *arguments], log=log, env=whole, cwd=self._folder)

    def end(self, name: str) -> None:
        """End one of them."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def _is_ready(self) -> bool:
        try:
            return self.ask("admin", "GET", "/readyz").is_success
        except httpx.TransportError:
            return False

    def ask(
        self, user: str, method: str, path: str, body: object = None, *, patch: str = "merge-patch"
    ) -> httpx.Response:
        """The answer to a request of a user."""
        kind = f"application/{patch}+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {user}", "Content-Type": kind}
        content = json.dumps(body) if body is not None else None
        return httpx.request(method, self.url + path, content=content, headers=headers, verify=False, timeout=60)

    def make(self, path: str, body: object) -> bytes:
        """As an administrator; what is there then."""
        done = self.ask("admin", "POST", path, body)
        assert done.is_success, done.text
        return done.content

    def make_account(self, namespace: str) -> None:
        """The one that pods of a namespace need, as soon as the namespace is there."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        assert wait_until(lambda: self.ask("admin", "POST", path, account).status_code in (201, 409), timeout_s=60)

    def install(self, manifests: Iterable[Mapping[str, Any]], *endings: str) -> None:
        """Install the rights and admission policies of a chart whose names end with one of `endings`."""
        for each in manifests:
            if each["kind"] in _PLURALS and each["metadata"]["name"].endswith(endings):
                self.make(f"/apis/{each['apiVersion']}/{_PLURALS[each['kind']]}", each)

    def kubeconfig(self, user: str) -> Path:
        """A kubeconfig of that user."""
        file = self._folder / f"{user}.kubeconfig"
        cluster = {"server": self.url, "insecure-skip-tls-verify": True}
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": user}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }  # fmt: skip
        file.write_text(json.dumps(config))
        return file

    def stop(self) -> None:
        """All end, the last one first."""
        for name in reversed([*self.processes]):
            self.end(name)


@contextlib.contextmanager
def alone(folder: Path, users: Mapping[str, str] = _NONE, groups: Mapping[str, str] = _NONE) -> Iterator[Apiserver]:
    """An apiserver that keeps its things in the folder, and ends with the block."""
    apiserver = Apiserver(folder, users, groups)
    try:
        yield apiserver
    finally:
        apiserver.stop()

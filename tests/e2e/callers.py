"""Speak to the apiserver and to the hooks as somebody else, and see what they answer."""

from __future__ import annotations

import json
import ssl

import httpx
import msgspec

from demo.stack import Stack
from sunkpy.core import names


class _Cluster(msgspec.Struct, frozen=True):
    server: str
    ca: bytes = msgspec.field(name="certificate-authority-data", default=b"")


class _NamedCluster(msgspec.Struct, frozen=True):
    cluster: _Cluster


class _KubeConfig(msgspec.Struct, frozen=True):
    clusters: list[_NamedCluster]


class Apiserver:
    """Requests with one bearer token and nothing of the admin's kubeconfig but address and CA."""

    def __init__(self, stack: Stack, token: str) -> None:
        config = msgspec.json.decode(
            stack.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"), type=_KubeConfig
        )
        self._server = config.clusters[0].cluster.server
        self._trust = _trust(config.clusters[0].cluster.ca)
        self._token = token

    def status(self, method: str, path: str, body: object | None = None) -> int:
        """HTTP status of a request; a body is sent as a merge patch or as JSON."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return httpx.request(
            method,
            f"{self._server}{path}",
            content=None if body is None else json.dumps(body),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": kind},
            verify=self._trust,
            trust_env=False,
            timeout=20,
        ).status_code


def _trust(ca: bytes) -> ssl.SSLContext:
    if ca:
        return ssl.create_default_context(cadata=ca.decode())
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def service_account_of(stack: Stack, pod: str) -> str:
    """Name of the service account a pod of the release runs as."""
    return stack.kubectl("get", "pod", pod, "-n", stack.namespace, "-o", "jsonpath={.spec.serviceAccountName}")


def token_of(stack: Stack, account: str) -> str:
    """A fresh token for the apiserver of a service account of the release."""
    return stack.kubectl("create", "token", account, "-n", stack.namespace, "--duration=10m").strip()


def slurmd_token(stack: Stack, pod: str) -> str:
    """The token that the hooks of a slurmd pod send, read from its file."""
    return in_slurmd(stack, pod, "cat /var/run/secrets/sunkpy/token").strip()


def in_slurmd(stack: Stack, pod: str, script: str, *, stdin: str = "") -> str:
    """Output of a shell command in the slurmd container of a pod."""
    exec_ = ("exec", "-i", "-n", stack.namespace, pod, "-c", names.SLURMD_CONTAINER, "--")
    return stack.kubectl(*exec_, "bash", "-c", script, stdin=stdin)


def call_hook(
    stack: Stack, pod: str, *, token: str | None, node: str, job: int, hook: str = "prolog"
) -> tuple[int, str]:
    """Status and body of a hook call made from inside a slurmd pod, redirects to the leader followed."""
    header = "" if token is None else '-H "Authorization: Bearer $token"'
    data = json.dumps({"job_id": job, "node": node})
    script = (
        ". /etc/sunkpy/hooks.env; read -r token; "
        "curl -sS -m 40 -L --location-trusted --post301 --post302 -X POST -H 'Content-Type: application/json' "
        f"{header} -d '{data}' -w '\\n%{{http_code}}' $SUNKPY_HOOKS_URL/hooks/v1/{hook}"
    )
    body, _, status = in_slurmd(stack, pod, script, stdin=f"{token or '-'}\n").rpartition("\n")
    return int(status), body

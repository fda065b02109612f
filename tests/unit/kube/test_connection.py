"""What a deadline does to requests, against a server that never answers; the namespace of a kubeconfig."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import socket
import ssl
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from sunkpy.core.model.objects import Pod
from sunkpy.install.certificate import make_certificate
from sunkpy.kube import connection, errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.connection import Connection
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import answering

POD = "/api/v1/namespaces/d/pods/a"
SOON_S = 60.0
"""How long it may take on a busy machine."""


class Silence:
    """Keeps each request waiting; `left_s` is what the lease has left.

    By itself a request would be waited for much longer than the test.
    """

    def __init__(self, left_s: float) -> None:
        self.left_s = left_s
        self.received: list[str] = []
        self.answers = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.received.append(request.method)
        if not self.answers:
            await asyncio.Event().wait()
        return web.json_response({"metadata": {"name": "a"}})

    async def connection(self, kubeconfig: Path) -> Connection:
        return await Connection.open(kubeconfig, deadline=lambda: self.left_s, timeout_s=10 * SOON_S)

    @asynccontextmanager
    async def connected(self, folder: Path) -> AsyncIterator[Kube]:
        async with (
            answering(self.handle, folder) as kubeconfig,
            Kube(await self.connection(kubeconfig)) as kube,
        ):
            yield kube


async def write(kube: Kube, kind: str) -> None:
    match kind:
        case "create":
            await kube.create("/api/v1/namespaces/d/pods", {})
        case "patch":
            await kube.patch(POD, {})
        case "apply":
            await kube.apply(POD, {}, field_manager="test")
        case "delete":
            await kube.delete(POD, uid="u")
        case "bind":
            await kube.bind("d", "a", uid="u", node="n", annotations={})


WRITES = ["create", "patch", "apply", "delete", "bind"]


@pytest.mark.parametrize("kind", WRITES)
async def test_a_write_has_no_more_time_than_is_left(tmp_path: Path, kind: str) -> None:
    silence = Silence(left_s=1.0)  # long enough for the request to arrive on a busy machine
    async with silence.connected(tmp_path) as kube, asyncio.timeout(SOON_S):
        with pytest.raises(errors.Unavailable, match="no answer: TimeoutError"):
            await write(kube, kind)
    assert len(silence.received) == 1


@pytest.mark.parametrize("kind", WRITES)
async def test_a_write_after_the_lease_is_not_sent_and_says_why(tmp_path: Path, kind: str) -> None:
    silence = Silence(left_s=0.0)
    async with silence.connected(tmp_path) as kube:
        with pytest.raises(errors.LeaseOver, match="the lease has expired"):
            await write(kube, kind)
    assert silence.received == []


async def test_a_read_needs_no_lease(tmp_path: Path) -> None:
    silence = Silence(left_s=0.0)
    silence.answers = True
    async with silence.connected(tmp_path) as kube:
        assert (await kube.get(POD, Pod)).name == "a"


async def test_calls_that_hang_do_not_keep_a_write_from_its_end(tmp_path: Path) -> None:
    """All connections are taken: the wait for one counts as well."""
    silence = Silence(left_s=0.2)
    async with silence.connected(tmp_path) as kube, asyncio.timeout(SOON_S):
        results = await asyncio.gather(*(kube.patch(POD, {}) for _ in range(80)), return_exceptions=True)
    assert {type(result) for result in results} == {errors.Unavailable}


async def test_a_request_finds_a_connection_however_many_watches_are_open(tmp_path: Path) -> None:
    api = Apiserver()
    nodes = paths.Selection(paths.NODES, "", "")

    async def watch(kube: Kube) -> None:
        async for _ in kube.watch_lines(nodes, resource_version="0", on_open=lambda: None):
            pass

    api.put("pods", {"metadata": {"name": "a", "namespace": "d"}})
    async with answering(api.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        watches = [asyncio.create_task(watch(kube)) for _ in range(3 * connection._CONNECTIONS)]
        await api.until(lambda: api.watches_of("nodes") == len(watches))
        async with asyncio.timeout(SOON_S):
            assert (await kube.get(POD, Pod)).name == "a"
        for each in watches:
            each.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


def shake_hands(server: socket.socket, context: ssl.SSLContext) -> socket.socket:
    """The first connection; on a busy machine the client may give up before its TLS is there."""
    connection, _ = server.accept()
    kept = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
    with contextlib.suppress(OSError):
        kept.do_handshake()
    return kept


def test_a_request_that_was_given_up_leaves_no_connection(tmp_path: Path) -> None:
    """The server never says goodbye, as one that hangs."""
    for name, content in make_certificate(("localhost",), now=datetime.now(UTC)).items():
        (tmp_path / name).write_bytes(content)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")

    async def give_up(kubeconfig: Path) -> None:
        async with Kube(await Connection.open(kubeconfig, timeout_s=0.5)) as kube:
            with pytest.raises(errors.Unavailable):
                await kube.get(POD, Pod)

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as threads:
        server.settimeout(SOON_S)
        kept = threads.submit(shake_hands, server, context)
        kubeconfig = tmp_path / "kubeconfig"
        cluster = {"server": f"https://localhost:{server.getsockname()[1]}", "certificate-authority": "tls.crt"}
        kubeconfig.write_text(
            json.dumps(
                {
                    "current-context": "c",
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                }
            )
        )
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", ResourceWarning)
            asyncio.run(give_up(kubeconfig))
            gc.collect()
        kept.result().close()
    assert [str(each.message) for each in warned] == []


NAMESPACE = "from sunkpy.kube.connection import current_namespace; print(current_namespace())"


@pytest.mark.parametrize(("said", "namespace"), [(None, "default"), ({}, "default"), ({"namespace": "team"}, "team")])
def test_the_namespace_is_that_of_the_context_and_nothing_else_is_said(
    tmp_path: Path, said: dict[str, str] | None, namespace: str
) -> None:
    """Neither where there is no kubeconfig, as in a pod."""
    kubeconfig = tmp_path / "config"
    if said is not None:
        context = {"name": "c", "context": {"cluster": "c", "user": "u"} | said}
        sides = {"clusters": [{"name": "c", "cluster": {}}], "users": [{"name": "u", "user": {}}]}
        kubeconfig.write_text(json.dumps({"current-context": "c", "contexts": [context]} | sides))
    environment = os.environ | {"KUBECONFIG": f"/nonesuch:{kubeconfig}"}
    command = [sys.executable, "-c", NAMESPACE]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert (ended.stdout.strip(), ended.stderr) == (namespace, "")


def test_in_a_pod_the_namespace_is_that_of_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_pod = tmp_path / "namespace"
    of_pod.write_text("slurm")
    monkeypatch.setattr(connection, "_OF_POD", of_pod)
    assert connection.current_namespace(tmp_path / "config") == "default"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", "/nonesuch")
    monkeypatch.setattr(connection.config, "KUBE_CONFIG_DEFAULT_LOCATION", "/nonesuch")
    assert connection.current_namespace() == "default"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert connection.current_namespace() == "slurm"

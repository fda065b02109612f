from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from sunkpy.install.keys import ensure_certificate, ensure_keys
from sunkpy.kube.client import Kube

SLURM_AND_JWT = {"a": "slurm.key", "b": "jwt.key"}


class Api:
    """An apiserver that knows Secrets: it creates them, and refuses a name that is taken."""

    def __init__(self, *taken: str) -> None:
        self.taken = set(taken)
        self.created: dict[str, dict[str, object]] = {}

    async def handle(self, request: web.Request) -> web.Response:
        assert (request.method, request.path) == ("POST", "/api/v1/namespaces/slurm/secrets")
        body = await request.json()
        name = body["metadata"]["name"]
        if name in self.taken:
            return web.json_response({"kind": "Status", "reason": "AlreadyExists", "code": 409}, status=409)
        self.created[name] = body
        return web.json_response(body, status=201)


async def ensure(api: Api, tmp_path: Path, wanted: Mapping[str, str]) -> list[str]:
    async with connected(api, tmp_path) as kube:
        return await ensure_keys(kube, namespace="slurm", wanted=wanted)


@asynccontextmanager
async def connected(api: Api, tmp_path: Path) -> AsyncIterator[Kube]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    server = TestServer(app)
    await server.start_server()
    kubeconfig = tmp_path / "kubeconfig"
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": str(server.make_url("")).rstrip("/")}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    kubeconfig.write_text(json.dumps(config))
    try:
        async with await Kube.connect(kubeconfig) as kube:
            yield kube
    finally:
        await server.close()


async def test_missing_keys_are_made_for_good(tmp_path: Path) -> None:
    api = Api()
    said = await ensure(api, tmp_path, SLURM_AND_JWT)
    assert said == ["Secret slurm/a created", "Secret slurm/b created"]
    assert [secret["immutable"] for secret in api.created.values()] == [True, True]
    sizes = {name: len(base64.b64decode(*secret["data"].values())) for name, secret in api.created.items()}
    assert sizes == {"a": 1024, "b": 32}


async def test_a_key_that_is_there_is_kept(tmp_path: Path) -> None:
    api = Api("a")
    said = await ensure(api, tmp_path, SLURM_AND_JWT)
    assert said == ["Secret slurm/a exists: kept", "Secret slurm/b created"]
    assert set(api.created) == {"b"}


async def test_a_key_that_somebody_brings_is_not_made_while_it_is_missing(tmp_path: Path) -> None:
    api = Api()
    assert await ensure(api, tmp_path, {"": "slurm.key", "b": "jwt.key"}) == ["Secret slurm/b created"]
    assert set(api.created) == {"b"}


async def test_the_password_of_the_database_is_words_that_every_configuration_can_hold(tmp_path: Path) -> None:
    api = Api()
    said = await ensure(api, tmp_path, {"d": "password"})
    assert said == ["Secret slurm/d created"]
    password = base64.b64decode(api.created["d"]["data"]["password"]).decode()
    assert len(password) == 32
    assert password.replace("-", "a").replace("_", "a").isalnum()


async def test_sshd_can_read_its_host_key(tmp_path: Path) -> None:
    api = Api()
    assert await ensure(api, tmp_path, {"h": "ssh_host_ed25519_key", "c": "ssh_host_ed25519_key"}) == [
        "Secret slurm/h created",
        "Secret slurm/c created",
    ]
    key = load_ssh_private_key(base64.b64decode(api.created["h"]["data"]["ssh_host_ed25519_key"]), password=None)
    assert isinstance(key, Ed25519PrivateKey)


async def test_a_certificate_is_made_once_with_its_key(tmp_path: Path) -> None:
    api = Api("kept")
    async with connected(api, tmp_path) as kube:
        said = [
            await ensure_certificate(kube, namespace="slurm", secret=name, hosts=("a.svc",)) for name in ("t", "kept")
        ]
    assert said == ["Secret slurm/t created", "Secret slurm/kept exists: kept"]
    assert set(api.created["t"]["data"]) == {"tls.crt", "tls.key"}
    assert api.created["t"]["immutable"] is True

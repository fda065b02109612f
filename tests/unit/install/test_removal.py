from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from sunkpy.install.removal import Jobs, StillThere, remove_nodesets
from sunkpy.kube.client import Kube

NODESETS = "/apis/sunkpy.dev/v1alpha1/namespaces/slurm/nodesets"


class Api:
    """NodeSets that go when they are deleted, unless a job holds them, and one slurmd pod that runs a job."""

    def __init__(self, names: list[str], *, held: bool) -> None:
        self.names = names
        self.held = held
        self.deleted: list[str] = []
        self.patched: dict[str, object] = {}
        self._gone: asyncio.Queue[str] = asyncio.Queue()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "DELETE":
            name = request.path.rsplit("/", 1)[-1]
            self.deleted.append(name)
            if not self.held:
                await self._gone.put(name)
            return web.json_response({})
        if request.method == "PATCH":
            name = request.path.rsplit("/", 1)[-1]
            assert name not in self.deleted, "what is being deleted may be gone already"
            self.patched[name] = (await request.json())["spec"]
            return web.json_response({})
        if request.path.endswith("/pods"):
            status = {"phase": "Running", "conditions": [{"type": "SlurmRunning", "status": "True"}]}
            pod = {"metadata": {"name": "gpu-001", "namespace": "slurm"}, "status": status}
            return web.json_response({"metadata": {}, "items": [pod]})
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [_body(n) for n in self.names]})
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            event = {"type": "DELETED", "object": _body(await self._gone.get(), version="2")}
            await response.write(json.dumps(event).encode() + b"\n")


def _body(name: str, *, version: str = "1") -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "slurm", "uid": f"u-{name}", "resourceVersion": version}}


async def remove(api: Api, tmp_path: Path, *, timeout_s: float, jobs: Jobs = Jobs.AWAIT) -> list[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    server = TestServer(app)
    await server.start_server()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": str(server.make_url("")).rstrip("/")}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    said: list[str] = []
    try:
        async with await Kube.connect(kubeconfig) as kube:
            await remove_nodesets(
                kube, namespace="slurm", selector="a=b", timeout_s=timeout_s, jobs=jobs, say=said.append
            )
    finally:
        await server.close()
    return said


async def test_all_nodesets_are_deleted_and_waited_for(tmp_path: Path) -> None:
    api = Api(["a", "b"], held=False)
    said = await remove(api, tmp_path, timeout_s=10)
    assert api.deleted == ["a", "b"]
    assert api.patched == {}
    assert len(said) == 2


async def test_who_does_not_wait_for_jobs_gives_the_operator_leave_to_end_them(tmp_path: Path) -> None:
    api = Api(["a", "b"], held=False)
    await remove(api, tmp_path, timeout_s=10, jobs=Jobs.END)
    now = {"drainTimeoutSeconds": 1, "drainTimeoutPolicy": "Force"}
    assert api.patched == {"a": now, "b": now}
    assert api.deleted == ["a", "b"]


async def test_no_nodeset_is_no_wait(tmp_path: Path) -> None:
    assert await remove(Api([], held=False), tmp_path, timeout_s=10) == []


async def test_a_nodeset_held_by_a_job_is_named_with_the_busy_node(tmp_path: Path) -> None:
    with pytest.raises(StillThere, match=r"NodeSets a are not gone .* run on: gpu-001"):
        await remove(Api(["a"], held=True), tmp_path, timeout_s=0.3)

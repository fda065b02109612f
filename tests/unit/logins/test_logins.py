"""The process for login pods of one's own: people ask over HTTP, the test is StatefulSet controller and kubelet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from sunkpy.core.logins import RenewPod
from sunkpy.core.model.objects import Pod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import Conflict
from sunkpy.logins.execute import Executor
from sunkpy.logins.metrics import LoginsMetrics
from sunkpy.logins.settings import LoginsSettings, PersonSettings
from sunkpy.logins.term import Term
from sunkpy.runtime.process import Process
from sunkpy.runtime.settings import ProcessSettings
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import Changes, answering
from tests.ports import free_ports

LABELS = {"app.kubernetes.io/component": "own-login"}
SELECTOR = "app.kubernetes.io/component=own-login"
READY = [{"type": "Ready", "status": "True"}]


class World:
    """ann, whose pod is stopped while idle, bob, whose is not; and what happens to them."""

    def __init__(self, api: Apiserver, kube: Kube, http: aiohttp.ClientSession, port: int) -> None:
        self.api = api
        self.kube = kube
        self._http = http
        self._port = port

    def put_workload(self, person: str, *, replicas: int = 0, generation: int = 2) -> None:
        name = f"slurm-login-{person}"
        labels = LABELS | {"sunkpy.dev/login": name}
        meta = {"name": name, "namespace": "slurm", "labels": labels, "generation": generation}
        self.api.put("statefulsets", {"metadata": meta, "spec": {"replicas": replicas}})

    def put_pod(self, person: str, uid: str = "first", conditions: Any = READY, **sshd: Any) -> None:
        name = f"slurm-login-{person}"
        meta = {"name": f"{name}-0", "namespace": "slurm", "uid": uid, "labels": LABELS | {"sunkpy.dev/login": name}}
        status = {"podIP": "10.0.0.9", "conditions": conditions, "containerStatuses": [{"name": "sshd", **sshd}]}
        self.api.put("pods", {"metadata": meta, "spec": {}, "status": status})

    def replicas(self, person: str) -> int:
        found = self.api.find("statefulsets", f"slurm-login-{person}")
        assert found is not None
        return int(found["spec"]["replicas"])

    async def asked(self, person: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self._port}/logins/v1/{person}"
        async with self._http.post(url) as answer:
            return answer.status, await answer.text()

    async def until_told(self, person: str, answer: tuple[int, str]) -> None:
        async with asyncio.timeout(60):
            while await self.asked(person) != answer:
                pass


@pytest.fixture
async def world(tmp_path) -> AsyncIterator[World]:
    api = Apiserver(Changes())
    api.define("apps/v1", "StatefulSet", "statefulsets")
    (port,) = free_ports(1)
    people = {name: PersonSettings(stateful_set=f"slurm-login-{name}", stops=name == "ann") for name in ("ann", "bob")}
    settings = LoginsSettings(namespace="slurm", people=people, selector=SELECTOR, requests_port=port)
    process = Process("logins", ProcessSettings())
    async with (
        answering(api.handle, tmp_path) as kubeconfig,
        await Kube.connect(kubeconfig) as kube,
        aiohttp.ClientSession() as http,
    ):
        term = Term(kube=kube, settings=settings, process=process, metrics=LoginsMetrics(process.registry))
        serving = asyncio.ensure_future(term.run())
        await api.until(lambda: api.watched >= {"pods", "statefulsets"})
        yield World(api, kube, http, port)
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


def left(code: int) -> dict[str, Any]:
    return {"lastState": {"terminated": {"exitCode": code}}, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}


async def test_who_asks_for_a_stopped_pod_gets_it_and_is_told_where(world: World):
    world.put_workload("ann")
    await world.api.until(lambda: world.api.find("statefulsets", "slurm-login-ann"))
    assert await world.asked("ann") == (202, "your login pod is being started")
    await world.api.until(lambda: world.replicas("ann") == 1)
    world.put_pod("ann", conditions=[])
    await world.until_told("ann", (202, "your login pod is starting"))
    world.put_pod("ann")
    await world.until_told("ann", (200, "10.0.0.9 2222"))


async def test_a_pod_that_nobody_uses_is_stopped_and_nobody_elses(world: World):
    world.put_workload("ann", replicas=1)
    world.put_workload("bob", replicas=1)
    world.put_pod("bob")
    world.put_pod("ann", **left(80))
    await world.api.until(lambda: world.replicas("ann") == 0)
    assert (world.replicas("bob"), world.api.deleted) == (1, [])


async def test_who_restarts_their_pod_gets_another_one(world: World):
    world.put_workload("bob", replicas=1)
    world.put_pod("bob", **left(81))
    await world.api.until(lambda: world.api.deleted == ["slurm-login-bob-0"])
    assert world.replicas("bob") == 1


async def test_after_an_install_nothing_runs_that_nobody_has_asked_for(world: World):
    world.put_workload("bob", replicas=1, generation=1)
    world.put_workload("ann", replicas=1, generation=1)
    await world.api.until(lambda: world.replicas("ann") == 0)
    assert world.replicas("bob") == 1, "idleMinutes: 0"


async def test_the_first_request_after_an_install_is_not_lost(world: World):
    world.put_workload("ann", replicas=1, generation=1)
    await world.asked("ann")
    await world.api.until(lambda: world.api.patched.count("slurm-login-ann/scale") >= 2)
    assert world.replicas("ann") == 1


async def test_a_watch_that_lags_does_not_stop_the_next_pod(world: World):
    world.put_workload("ann", replicas=1)
    world.api.watches_lag = True
    world.put_pod("ann", **left(80))
    world.api.remove("pods", "slurm", "slurm-login-ann-0")
    world.put_pod("ann", uid="second")
    world.api.watches_lag = False
    world.api.changes.note()
    await world.until_told("ann", (200, "10.0.0.9 2222"))
    assert world.replicas("ann") == 1


async def test_a_pod_that_has_started_meanwhile_is_not_made_anew(world: World):
    executor = Executor(kube=world.kube, namespace="slurm", metrics=LoginsMetrics(CollectorRegistry()))
    world.put_pod("bob", conditions=[])
    stuck = await world.kube.get(paths.pod("slurm", "slurm-login-bob-0"), Pod)
    world.put_pod("bob", state={"running": {}})
    with pytest.raises(Conflict):
        await executor.run(RenewPod(stuck))
    assert world.api.deleted == []


@pytest.mark.parametrize("person", ["eve", "ann2", "..%2fann", "ann%0a", "%2e%2e", "a" * 5000])
async def test_who_has_none_is_told_so_and_nothing_is_done(world: World, person: str):
    world.put_workload("ann")
    assert (await world.asked(person))[0] == 404
    assert world.api.patched == []

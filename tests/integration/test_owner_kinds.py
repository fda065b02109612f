"""Kinds that come, go and move, on a real apiserver with no cluster around it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from devcluster.waiting import wait_until
from sunkpy.core.gang.gang import Link
from sunkpy.core.model.objects import Kind, KubeObject, Owner, Pod
from sunkpy.kube import errors
from sunkpy.kube.client import Kube
from sunkpy.kube.discovery import read_served
from sunkpy.kube.informer import Together
from sunkpy.kube.kinds import KindTimes
from sunkpy.scheduler.owners.watch import OwnerWatches
from tests.integration.apiserver import Apiserver, alone

pytestmark = pytest.mark.integration

MPI_JOB = Kind(group="kubeflow.org", kind="MPIJob")
TRAIN = Link(kind=MPI_JOB, namespace="default", name="train")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = f"{CRDS}/mpijobs.kubeflow.org"
JOBS = "/apis/kubeflow.org/{}/namespaces/default/mpijobs"


@pytest.fixture(scope="module")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    with alone(tmp_path_factory.mktemp("apiserver")) as apiserver:
        yield apiserver


def versions(*served: str, stored: str) -> list[dict[str, object]]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return [
        {"name": name, "served": name in served, "storage": name == stored, "schema": schema}
        for name in ("v1", "v2beta1")
    ]


def install(apiserver: Apiserver, version: str) -> None:
    names = {"kind": "MPIJob", "plural": "mpijobs", "singular": "mpijob", "listKind": "MPIJobList"}
    spec = {"group": "kubeflow.org", "scope": "Namespaced", "names": names}
    spec |= {"versions": versions(version, stored=version)}
    apiserver.make(CRDS, {"metadata": {"name": "mpijobs.kubeflow.org"}, "spec": spec})
    made = {"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob", "metadata": {"name": "train"}}
    path = JOBS.format(version)
    assert wait_until(lambda: apiserver.ask("admin", "POST", path, made).is_success, timeout_s=60, every_s=0.2)


def uninstall(apiserver: Apiserver) -> None:
    apiserver.ask("admin", "DELETE", CRD)
    assert wait_until(lambda: apiserver.ask("admin", "GET", CRD).status_code == 404, timeout_s=60, every_s=0.2)


@asynccontextmanager
async def connected(apiserver: Apiserver, folder: Path) -> AsyncIterator[Kube]:
    kubeconfig = folder / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": apiserver.url, "insecure-skip-tls-verify": True}}
    user = {"name": "u", "user": {"token": "admin"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    whole = {"current-context": "c", "clusters": [cluster], "users": [user], "contexts": [context]}
    kubeconfig.write_text(json.dumps(whole))
    async with await Kube.connect(kubeconfig) as kube:
        yield kube


@asynccontextmanager
async def watching(kube: Kube) -> AsyncIterator[OwnerWatches]:
    def odd(_: str, about: KubeObject, why: str) -> None:
        raise AssertionError(f"{about}: {why}")

    pods: Together[Pod] = Together([])
    soon = KindTimes(again_s=1.0, sure_after_s=2.0, apart_s=0.2)
    watches = OwnerWatches(kube, reads=(MPI_JOB,), pods=pods, clock=time.monotonic, on_unreadable=odd, times=soon)
    watches.follow(MPI_JOB)
    running = asyncio.ensure_future(watches.run())
    try:
        yield watches
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_crd_that_comes_back_in_another_version_is_found_and_only_one_warning_tells_that_it_was_gone(
    apiserver: Apiserver, tmp_path: Path
) -> None:
    install(apiserver, "v2beta1")
    with capture_logs() as logs:
        async with connected(apiserver, tmp_path) as kube, watching(kube) as watches:
            await until(lambda: watches.seen(TRAIN))
            await asyncio.to_thread(uninstall, apiserver)
            await until(lambda: watches.why_unreadable(TRAIN))
            # The watch may have ended before it showed that the object is gone; then the object stays known.
            await asyncio.to_thread(install, apiserver, "v1")
            await until(lambda: getattr(watches.seen(TRAIN), "api_version", "") == "kubeflow.org/v1")
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["kind cannot be read"]
    uninstall(apiserver)


async def test_an_object_whose_version_is_not_served_any_more_is_found_in_the_next(
    apiserver: Apiserver, tmp_path: Path
) -> None:
    install(apiserver, "v2beta1")
    async with connected(apiserver, tmp_path) as kube, watching(kube) as watches:
        await until(lambda: watches.seen(TRAIN))
        changed = {"spec": {"versions": versions("v1", stored="v1")}}
        assert (await asyncio.to_thread(apiserver.ask, "admin", "PATCH", CRD, changed)).is_success
        await until(lambda: getattr(watches.seen(TRAIN), "api_version", "") == "kubeflow.org/v1")
    uninstall(apiserver)


async def test_a_404_of_the_path_is_told_from_one_of_the_object(apiserver: Apiserver, tmp_path: Path) -> None:
    install(apiserver, "v1")
    async with connected(apiserver, tmp_path) as kube:
        with pytest.raises(errors.NotFound):
            await kube.get(f"{JOBS.format('v1')}/nobody", Owner)
        for path in (JOBS.format("v2beta1"), "/apis/kubeflow.org/v1/ghosts", "/apis/ghosts.example.com/v1/ghosts"):
            with pytest.raises(errors.NotServed):
                await kube.get(path, Owner)
    uninstall(apiserver)


async def test_what_every_apiserver_serves_is_found(apiserver: Apiserver, tmp_path: Path) -> None:
    async with connected(apiserver, tmp_path) as kube:
        served = await read_served(kube)
    found = {
        name: served.find(Kind(group=group, kind=name))
        for group, name in (("", "Node"), ("", "ConfigMap"), ("apps", "Deployment"), ("batch", "Job"))
    }
    assert {name: place.collection for name, place in found.items() if place is not None} == {
        "Node": "/api/v1/nodes",
        "ConfigMap": "/api/v1/configmaps",
        "Deployment": "/apis/apps/v1/deployments",
        "Job": "/apis/batch/v1/jobs",
    }
    assert [name for name, place in found.items() if place is not None and not place.namespaced] == ["Node"]
    assert served.uncertain == frozenset()

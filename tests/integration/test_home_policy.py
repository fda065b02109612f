"""The policy of chart slurm that no tenant mounts the file server of the homes, on a real apiserver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from devcluster.waiting import wait_until
from tests.integration.apiserver import Apiserver, alone
from tests.unit.charts.rendering import render

pytestmark = pytest.mark.integration

NAS = "nas.example.com"
HOME = {"nfs": {"server": NAS, "path": "/home"}}
FOLDER = {"nfs": {"server": "files.example.com", "path": "/data"}}
VALUES = {
    "home": {"volume": HOME, "protect": {"servers": ["10.0.0.9"], "namespaces": ["backup"]}},
    "sharedFolders": {"/data": FOLDER},
}
SAYS = "because Slurm's users have homes or shared folders there"


@pytest.fixture(scope="module")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    with alone(tmp_path_factory.mktemp("apiserver"), {}) as apiserver:
        for namespace in ("team", "research", "backup"):
            apiserver.make("/api/v1/namespaces", {"metadata": {"name": namespace}})
            apiserver.make_account(namespace)
        apiserver.install(render("slurm", VALUES), "-homes")
        assert wait_until(lambda: made(apiserver, HOME).status_code == 403, timeout_s=60, every_s=0.5)
        yield apiserver


def made(apiserver: Apiserver, volume: Mapping[str, object], namespace: str = "team") -> httpx.Response:
    """The answer to a pod with this volume. An administrator asks, because controllers make pods for anybody."""
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", **volume}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    return apiserver.ask("admin", "POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)


def csi(attributes: Mapping[str, str]) -> Mapping[str, object]:
    return {"csi": {"driver": "nfs.csi.k8s.io", "volumeAttributes": attributes}}


@pytest.mark.parametrize(
    "volume",
    [
        HOME,
        {"nfs": {"server": NAS, "path": "/"}},
        {"nfs": {"server": NAS, "path": "/export/home/ann"}},
        {"nfs": {"server": NAS, "path": "/scratch/../home"}},
        {"nfs": {"server": "NAS.example.com.", "path": "/home", "readOnly": True}},
        {"nfs": {"server": "10.0.0.9", "path": "/home"}},
        csi({"server": NAS, "share": "/home"}),
        csi({"source": f"{NAS}:/home"}),
        csi({"volumeHandle": f"nfs://{NAS}./home"}),
        csi({"mount": "addr=10.0.0.9,vers=4"}),
        FOLDER,
    ],
    ids=str,
)
def test_no_pod_elsewhere_mounts_the_server_of_the_homes(apiserver: Apiserver, volume: Mapping[str, object]) -> None:
    refused = made(apiserver, volume)
    where = f"pods of this namespace may not mount 10.0.0.9, files.example.com, {NAS} directly, {SAYS}"
    assert (refused.status_code, where in refused.text) == (403, True), refused.text


@pytest.mark.parametrize("namespace", ["research", "backup"])
def test_the_release_and_who_is_listed_mount_it(apiserver: Apiserver, namespace: str) -> None:
    answer = made(apiserver, HOME, namespace)
    assert answer.is_success, answer.text


@pytest.mark.parametrize(
    "volume",
    [
        {"emptyDir": {}},
        {"nfs": {"server": "other.example.com", "path": "/home"}},
        csi({"server": "other.example.com"}),
        csi({"server": f"{NAS}.other"}),
        csi({"server": "10.0.0.99"}),
        csi({"server": "110.0.0.9"}),
        {"csi": {"driver": "secrets.csi.k8s.io"}},
        {"persistentVolumeClaim": {"claimName": "c"}},
    ],
    ids=str,
)
def test_other_volumes_are_nobodys_business(apiserver: Apiserver, volume: Mapping[str, object]) -> None:
    answer = made(apiserver, volume)
    assert answer.is_success, answer.text


def test_every_server_can_be_meant_where_the_homes_are_on_a_claim(tmp_path: Path) -> None:
    values = {"home": {"existingClaim": "home", "protect": {"servers": ["*"]}}}
    with alone(tmp_path, {}) as apiserver:
        for namespace in ("team", "research"):
            apiserver.make("/api/v1/namespaces", {"metadata": {"name": namespace}})
            apiserver.make_account(namespace)
        apiserver.install(render("slurm", values), "-homes")
        assert wait_until(lambda: made(apiserver, FOLDER).status_code == 403, timeout_s=60, every_s=0.5)
        says = f"pods of this namespace may not mount NFS servers directly, {SAYS}"
        assert says in made(apiserver, HOME).text
        assert made(apiserver, csi({"server": NAS})).is_success
        assert made(apiserver, HOME, "research").is_success

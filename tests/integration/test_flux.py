"""The example for Flux, by its controllers on a real apiserver without nodes: no hook runs, nothing gets ready."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml

from devcluster.binaries import Binaries
from devcluster.kubectl import Kubectl
from devcluster.state import default_cache
from devcluster.waiting import NotYet, wait
from tests.bench.gitops.site import Repositories
from tests.integration.apiserver import Apiserver
from tests.integration.flux import Flux

# The first test waits until Flux is built: minutes of a quiet machine, and of a busy one an hour.
pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(3600)]

CONF: Final = ("get", "configmap", "slurm-slurm-config", "-n", "slurm", "-o", "jsonpath={.data.slurm\\.conf}")
_ALONE: Final = {"disableHooks": True, "disableWait": True}


class Site(msgspec.Struct, frozen=True):
    """What the tests change."""

    flux: Flux
    repositories: Repositories
    good: Mapping[str, object]

    def push(self, values: Mapping[str, object]) -> None:
        """Values of production, in place of those that work."""
        self.repositories.push("production", {**self.good, **values}, "a change")
        self.flux.refresh()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    binaries = Binaries(default_cache())
    folder, processes = tmp_path_factory.mktemp("flux"), []

    def run(program: str, args: list[str], env: Mapping[str, str]) -> None:
        with (folder / "log").open("ab") as log:
            whole = {**os.environ, **env}
            processes.append(subprocess.Popen([program, *args], env=whole, stdout=log, stderr=log))

    with contextlib.ExitStack() as ends:
        api = Apiserver(tmp_path_factory.mktemp("api"), {})
        ends.callback(api.stop)
        ends.callback(lambda: [process.kill() or process.wait() for process in processes])
        flux = Flux(Kubectl(api.kubeconfig("admin"), binaries.kubernetes), binaries, folder, run=run)
        flux.start()
        yield _installed(flux, folder)


def _installed(flux: Flux, folder: Path) -> Site:
    repositories = Repositories(folder / "git", {}, server=flux.server)
    repositories.add_charts()
    good = {**repositories.values("production"), "partitions": {"night": {"priorityTier": 5}}}
    repositories.push("production", good, "a partition")
    flux.serve(repositories.folder)
    for file in sorted((repositories.site / "flux").glob("*.yaml")):
        made = yaml.safe_load(file.read_text())
        if made["kind"] == "HelmRelease":
            made["spec"] |= {"install": made["spec"]["install"] | _ALONE, "upgrade": _ALONE, "uninstall": _ALONE}
        flux.kubectl.apply(made)
    for name in ("sunkpy", "slurm", "slurm-staging"):
        flux.settled(name)
    return Site(flux, repositories, good)


def test_a_value_reaches_slurm_conf_and_a_revert_takes_it_back(site: Site):
    site.push({"slurmConfig": {"conf": {"KillWait": 31}}})
    site.flux.settled("slurm")
    assert "KillWait=31" in site.flux.kubectl(*CONF)
    site.repositories.revert()
    site.flux.refresh()
    site.flux.settled("slurm")
    assert "KillWait=30" in site.flux.kubectl(*CONF)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"partitions": {}}, "partitions: the values no longer have partition night"),
        ({"clusterName": "other"}, "clusterName is other, but this cluster was installed as slurm"),
        ({"slurmctld": {"persistence": {"size": "9Gi"}}}, "but the volume was made with 20Gi, and no upgrade can"),
        ({"home": {"size": "1Mi"}}, "has 10Gi, and no volume can become smaller"),
        ({"priorityClasses": {"slurmd": 7}}, "and Kubernetes cannot change the value"),
        ({"partitions": {"night": {"nodeSets": ["gpu"]}}}, "there is no NodeSet gpu"),
    ],
)
def test_a_refusal_is_told_by_the_helmrelease_and_changes_nothing(site: Site, values: Mapping[str, object], told: str):
    before = site.flux.kubectl(*CONF)
    site.push(values)
    assert told in site.flux.refused("slurm")
    assert site.flux.kubectl(*CONF) == before
    site.push({})
    site.flux.settled("slurm")


def test_what_somebody_changed_or_deleted_is_as_in_git_again(site: Site):
    kubectl = site.flux.kubectl
    kubectl("delete", "deployment", "slurm-syncer", "-n", "slurm")
    patch = json.dumps({"data": {"slurm.conf": "ClusterName=other\n"}})
    kubectl("patch", "configmap", "slurm-slurm-config", "-n", "slurm", "--type=merge", "-p", patch)

    def is_healed() -> bool:
        if "ClusterName=other" in kubectl(*CONF):
            raise NotYet("slurm.conf is not as in Git")
        return bool(kubectl("get", "deployment", "slurm-syncer", "-n", "slurm", "-o", "name"))

    wait(is_healed, timeout_s=180, what="both are as in Git")


def test_releases_that_are_deleted_leave_nothing_that_runs(site: Site):
    site.flux.remove()
    assert site.flux.kubectl("get", "deployments,statefulsets,nodesets.sunkpy.dev,services", "-A", "-o", "name") in (
        "",
        "service/kubernetes\n",
    )

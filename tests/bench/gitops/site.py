"""Both Slurm clusters of the example, the Git repositories that define them, and the jobs of the bench."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from demo.stack import ROOT, Stack
from devcluster import Cluster
from devcluster.shell import run
from devcluster.waiting import wait_until_equal
from sunkpy.core.model.objects import Pod
from tests.bench.asked import SUITE
from tests.bench.gitops.argocd import ArgoCD
from tests.doubles.apiserver import merged
from tests.integration.flux import Flux

EXAMPLE: Final = ROOT / "docs" / "examples" / "gitops"
TAG: Final = "v0.1.0"
_SERVER: Final = "https://git.example.com"
_REGISTRY: Final = "registry.example.com/sunkpy/"
_PERSON: Final = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")


class Repositories:
    """Bare repositories in `folder`, and a clone of the site's. `server`: their URL; empty: `file://`."""

    def __init__(self, folder: Path, images: Mapping[str, str], *, server: str = "") -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder = folder
        self._images = images
        self.site = folder / "site"
        charts = self._clone("sunkpy")
        for part in ("charts", "crds"):
            shutil.copytree(ROOT / part, charts / part, symlinks=True)
        _commit(charts, "charts")
        _git(charts, "tag", TAG)
        _git(charts, "push", "-q", "origin", "main", TAG)
        self._clone("site")
        shutil.copytree(EXAMPLE, self.site, dirs_exist_ok=True)
        for file in self.site.rglob("*.yaml"):
            file.write_text(file.read_text().replace(_SERVER, server or f"file://{folder}"))
        # All nodes are processes of this machine, so cgroups are disabled as in demo.bring_up.
        own = {"slurmConfig": {"cgroup": "disabled"}}
        self._write("sunkpy", self.values("sunkpy"))
        for name in ("staging", "production"):
            self._write(name, merged(self.values(name), own))
        self._push("as in the example")

    def add_charts(self) -> None:
        """Copy the charts into the site's repository with links resolved, as in the charts' packages."""
        shutil.copytree(ROOT / "charts", self.site / "charts")
        self._push("charts")

    def values(self, name: str) -> dict[str, Any]:
        values: dict[str, Any] = yaml.safe_load((self.site / name / "values.yaml").read_text())
        return values

    def push(self, name: str, values: Mapping[str, object], why: str) -> None:
        """Commit these values in a folder of the site, and push."""
        self._write(name, values)
        self._push(why)

    def revert(self) -> None:
        _git(self.site, *_PERSON, "revert", "--no-edit", "HEAD")
        _git(self.site, "push", "-q", "origin", "main")

    def _push(self, why: str) -> None:
        _commit(self.site, why)
        _git(self.site, "push", "-q", "origin", "main")

    def _write(self, name: str, values: Mapping[str, object]) -> None:
        text = yaml.safe_dump(dict(values), sort_keys=False)
        for image, ref in self._images.items():
            text = text.replace(f"{_REGISTRY}{image}:TAG\n", f"{ref}\n")
        (self.site / name / "values.yaml").write_text(text)

    def _clone(self, name: str) -> Path:
        run(["git", "init", "-q", "--bare", "-b", "main", str(self.folder / f"{name}.git")])
        run(["git", "clone", "-q", str(self.folder / f"{name}.git"), str(self.folder / name)])
        return self.folder / name


def _git(folder: Path, *args: str) -> None:
    run(["git", "-C", str(folder), *args])


def _commit(folder: Path, why: str) -> None:
    _git(folder, "add", "-A")
    _git(folder, *_PERSON, "commit", "-q", "-m", why)


RELEASES: Final = ("sunkpy", "slurm", "slurm-staging")


Keeper = ArgoCD | Flux
"""The program that keeps the clusters as Git says. `server`: the URL where it finds the repositories; empty: it reads
them as files. `example`: what is applied once, by hand.
"""


class Site:
    """Both Slurm clusters of the example. `submitted`: the names of each cluster's jobs."""

    def __init__(self, cluster: Cluster, images: Mapping[str, str], *, keeper: Keeper) -> None:
        def stack(release: str) -> Stack:
            made = Stack(suite=SUITE, kubeconfig=cluster.kubeconfig, bin_dir=cluster.bin, images=images)
            made.release = made.namespace = made.scheduler_name = made.cluster = release
            return made

        self.keeper = keeper
        self.production, self.staging = stack("slurm"), stack("slurm-staging")
        self.repositories = Repositories(cluster.layout.home / "git", images, server=keeper.server)
        self.volumes = cluster.layout.volumes
        self.submitted: Mapping[Stack, list[str]] = {self.production: [], self.staging: []}
        self._numbers = itertools.count(1)

    def push(self, values: Mapping[str, object], why: str) -> float:
        """Push values of production and make the keeper read them. Return when that began (monotonic)."""
        began_s = time.monotonic()
        self.repositories.push("production", values, why)
        self.keeper.refresh()
        return began_s

    def revert(self) -> float:
        """Revert the last commit and make the keeper read that. Return when that began (monotonic)."""
        began_s = time.monotonic()
        self.repositories.revert()
        self.keeper.refresh()
        return began_s

    def submit(self, stack: Stack, *args: str, script: str) -> int:
        """Submit a job by `sbatch`. Its record is checked at the end."""
        name = f"gitops-{next(self._numbers)}"
        job = stack.sbatch(f"--job-name={name}", *args, script=script)
        self.submitted[stack].append(name)
        return job

    def knows(self, seconds: int) -> None:
        def kill_wait() -> str:
            lines = self.production.scontrol("show", "config").splitlines()
            return next(line.split("=")[1].split()[0] for line in lines if line.startswith("KillWait"))

        wait_until_equal(kill_wait, str(seconds), timeout_s=300, what="KillWait of slurmctld")

    def pods(self) -> Mapping[str, str]:
        """Return the running pods of production: name → uid."""
        pods = self.production.kubectl.list(Pod, "pods", "-n", self.production.namespace)
        return {pod.metadata.name: pod.metadata.uid for pod in pods if pod.status.phase == "Running"}

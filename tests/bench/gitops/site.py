"""Both Slurm clusters of the example, what changes them, and the jobs of the bench."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from demo.report import Tell
from demo.stack import Stack
from devcluster import Cluster
from devcluster.kubectl import Kubectl
from devcluster.waiting import wait_until_equal
from sunkpy.core.model.objects import Pod
from tests.bench.asked import SUITE
from tests.bench.gitops.repositories import Repositories

RELEASES: Final = ("sunkpy", "slurm", "slurm-staging")


class Keeper(Protocol):
    """Argo CD or Flux: what keeps the clusters as Git says."""

    kubectl: Kubectl
    server: str
    """Where it finds the repositories; empty: as files."""
    example: str
    """What is applied once, in the repository of the site."""

    def refresh(self) -> None:
        """Have it read Git now, as a webhook does."""

    def settled(self, name: str) -> object:
        """Wait until a release is as in Git, and healthy."""

    def synced_again(self, names: Sequence[str]) -> list[str]:
        """Have all releases compared with Git, and synced once more; what differed."""

    def refused(self, name: str) -> object:
        """Wait until it says that the last commit does not work."""

    def remove(self) -> None:
        """Take everything away again, and wait for that."""


class Site:
    """Both Slurm clusters. `submitted`: the jobs of each, by their names."""

    def __init__(self, cluster: Cluster, images: Mapping[str, str], tell: Tell, *, keeper: Keeper) -> None:
        def stack(release: str) -> Stack:
            made = Stack(suite=SUITE, kubeconfig=cluster.kubeconfig, bin_dir=cluster.bin, images=images)
            made.release = made.namespace = made.scheduler_name = made.cluster = release
            return made

        self.keeper = keeper
        self.production, self.staging = stack("slurm"), stack("slurm-staging")
        self.repositories = Repositories(cluster.layout.home / "git", images, server=keeper.server)
        self.volumes = cluster.layout.volumes
        self.tell = tell
        self.submitted: Mapping[Stack, list[str]] = {self.production: [], self.staging: []}
        self._numbers = itertools.count(1)

    def push(self, values: Mapping[str, object], why: str) -> float:
        """Push values of production and have them read; when that began."""
        began_s = time.monotonic()
        self.repositories.push("production", values, why)
        self.keeper.refresh()
        return began_s

    def revert(self) -> float:
        """Take the last commit back and have that read; when that began."""
        began_s = time.monotonic()
        self.repositories.revert()
        self.keeper.refresh()
        return began_s

    def submit(self, stack: Stack, *args: str, script: str) -> int:
        """A job by `sbatch`, whose record is asked for in the end."""
        name = f"gitops-{next(self._numbers)}"
        job = stack.sbatch(f"--job-name={name}", *args, script=script)
        self.submitted[stack].append(name)
        return job

    def knows(self, seconds: int) -> None:
        """Wait until slurmctld of production has this KillWait."""

        def kill_wait() -> str:
            lines = self.production.scontrol("show", "config").splitlines()
            return next(line.split("=")[1].split()[0] for line in lines if line.startswith("KillWait"))

        wait_until_equal(kill_wait, str(seconds), timeout_s=300, what="KillWait of slurmctld")

    def pods(self) -> Mapping[str, str]:
        """What runs in production: name -> uid."""
        pods = self.production.kubectl.list(Pod, "pods", "-n", self.production.namespace)
        return {pod.metadata.name: pod.metadata.uid for pod in pods if pod.status.phase == "Running"}

"""Opens the connections of a person's command to the apiserver and to Slurm."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from sunkpy.cli.access import NOT_ASKED, Access
from sunkpy.cli.pod_exec import NoWay, find_pod, relay_for
from sunkpy.kube.client import Kube
from sunkpy.runtime.settings import SlurmSettings, load
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.slurm import Slurm


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """The connections of a command to the apiserver (`kube`) and to slurmrestd (`slurm`).

    `settings`: those of the scheduler, if --config names them. `not_asked`: why there is no way to Slurm, as text;
    empty if there is one. `slurm_namespace`: the namespace of the Slurm cluster that `slurm` asks; empty if that is not
    known, because the person gave only an address of slurmrestd.
    """

    kube: Kube
    slurm: Slurm | None
    settings: SchedulerSettings | None
    not_asked: str = ""
    slurm_namespace: str = ""

    @property
    def namespace(self) -> str:
        """The namespace of the Slurm cluster, from the scheduler's settings; empty without settings."""
        return self.settings.namespace if self.settings is not None else ""


@asynccontextmanager
async def connected(access: Access) -> AsyncIterator[Sides]:
    """Open connections to Kubernetes and Slurm, and close them at the end.

    Without an address of slurmrestd, Slurm is asked through the scheduler's pod. For that the person needs the right to
    create pods/exec.

    Raises:
        BadSettings: the settings of the scheduler cannot be used.
        KubeError: there is no kubeconfig, or it names no apiserver.
    """
    settings = load(access.config, SchedulerSettings) if access.config is not None else None
    slurm, not_asked = _slurm(access, settings), ""
    namespace = settings.namespace if settings is not None and not access.slurmrestd else access.namespace
    try:
        async with await Kube.connect(access.kubeconfig) as kube:
            if slurm is None:
                try:
                    namespace = (await find_pod(kube, access, "scheduler")).metadata.namespace
                    slurm = Slurm.through(relay_for(kube, namespace, access.kubeconfig))
                except NoWay as why:
                    not_asked = f"{NOT_ASKED}: {why}; see --slurmrestd"
            yield Sides(kube=kube, slurm=slurm, settings=settings, not_asked=not_asked, slurm_namespace=namespace)
    finally:
        if slurm is not None:
            await slurm.close()


def _slurm(access: Access, settings: SchedulerSettings | None) -> Slurm | None:
    """Return a connection to the slurmrestd of --slurmrestd, or else of --config; None without both."""
    if access.slurmrestd:
        return Slurm.connect(SlurmSettings(url=access.slurmrestd, token_file=access.slurm_token_file))
    return Slurm.connect(settings.slurm) if settings is not None else None

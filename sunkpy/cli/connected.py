"""The connections of a person's command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sunkpy.cli.access import Access
from sunkpy.kube.client import Kube
from sunkpy.runtime.settings import SlurmSettings, load
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.slurm import Slurm


@asynccontextmanager
async def connected(access: Access) -> AsyncIterator[tuple[Kube, Slurm | None, SchedulerSettings | None]]:
    """The apiserver, the Slurm to ask if there is one, and the settings of the scheduler where they are at hand.

    Raises:
        BadSettings: the settings of the scheduler cannot be used.
        KubeError: the apiserver cannot be found.
    """
    settings = load(access.config, SchedulerSettings) if access.config is not None else None
    slurm = _slurm(access, settings)
    try:
        async with await Kube.connect(access.kubeconfig) as kube:
            yield kube, slurm, settings
    finally:
        if slurm is not None:
            await slurm.close()


def _slurm(access: Access, settings: SchedulerSettings | None) -> Slurm | None:
    """The Slurm of the command line, else the scheduler's."""
    if access.slurmrestd:
        return Slurm.connect(SlurmSettings(url=access.slurmrestd, token_file=access.slurm_token_file))
    return Slurm.connect(settings.slurm) if settings is not None else None

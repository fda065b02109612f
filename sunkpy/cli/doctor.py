"""`sunkpy doctor`: an installation is read, checked, and with `--canary` used."""

from __future__ import annotations

import asyncio

import msgspec

from sunkpy.cli.access import Access
from sunkpy.cli.canary import Patience, run_job, run_pod
from sunkpy.cli.connected import connected
from sunkpy.cli.installation_reader import InstallationReader
from sunkpy.cli.options import IN_A_POD, Form, as_data
from sunkpy.cli.overview import Shown
from sunkpy.core.overview.checks import diagnose, render_checks
from sunkpy.core.overview.installation import Canary, Installation
from sunkpy.kube.client import Kube
from sunkpy.kube.connection import current_namespace
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.slurm import Slurm


async def examine(access: Access, form: Form, patience: Patience | None) -> Shown:
    """All checks; `patience`: that of a canary job and pod, None for none.

    Raises:
        BadSettings, KubeError: there is no way to any apiserver.
    """
    async with connected(access) as (kube, slurm, settings):
        namespace = access.namespace or (settings.namespace if settings is not None else "")
        reader = InstallationReader(kube, slurm, namespace=namespace, is_in_pod=IN_A_POD.exists())
        found = await reader.read()
        if patience is not None:
            where = access.namespace or current_namespace(access.kubeconfig)
            canaries = await asyncio.gather(
                _job(slurm, patience), _pod(kube, found, settings, namespace=where, patience=patience)
            )
            found = msgspec.structs.replace(found, canaries=tuple(canaries))
    diagnosis = diagnose(found)
    if form in ("json", "yaml"):
        return Shown(as_data(diagnosis, form), diagnosis.exit_code)
    return Shown("\n".join(render_checks(diagnosis.checks, is_wide=form == "wide")), diagnosis.exit_code)


async def _job(slurm: Slurm | None, patience: Patience) -> Canary:
    if slurm is None:
        return Canary(what="a job", error="Slurm was not asked; see --config and --slurmrestd")
    return await run_job(slurm, patience)


async def _pod(
    kube: Kube, found: Installation, settings: SchedulerSettings | None, *, namespace: str, patience: Patience
) -> Canary:
    schedulers = (pod for pod in found.processes or () if pod.component == "scheduler")
    image = next((container.image for pod in schedulers for container in pod.spec.containers), "")
    if not image:
        return Canary(what="a pod", error="no pod of a scheduler could be read, whose image it would run")
    name = settings.scheduler_name if settings is not None else "slurm"
    return await run_pod(kube, namespace=namespace, scheduler=name, image=image, patience=patience)

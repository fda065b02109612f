"""`kubectl sunk doctor`: reads an installation, checks it and, with `--canary`, runs a test job and a test pod."""

from __future__ import annotations

import asyncio

import msgspec

from sunkpy.cli.access import Access
from sunkpy.cli.canary import Patience, run_job, run_pod
from sunkpy.cli.connected import Sides, connected
from sunkpy.cli.installation_reader import InstallationReader
from sunkpy.cli.options import IN_A_POD, Form, Shown, present
from sunkpy.cli.pod_exec import ExecFailed, NoWay, find_pod, run_there, words_in
from sunkpy.cli.readable_cluster import read_settings
from sunkpy.core.overview.checks import Diagnosis, diagnose, render_checks
from sunkpy.core.overview.installation import Canary, CanaryJob, Installation
from sunkpy.kube.client import Kube
from sunkpy.kube.connection import current_namespace
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.slurm import Slurm


async def examine(access: Access, form: Form, patience: Patience | None, *, by_exec: bool = False) -> Shown:
    """Make all checks of an installation, and return the output of `kubectl sunk doctor` with its exit code.

    `patience`: how long a canary (test) job and pod may take; None runs none. `by_exec`: let the scheduler's pod make
    the checks that cannot be made here, such as whether the hooks answer; that needs the right to create pods/exec.

    Raises:
        BadSettings, KubeError: the settings cannot be used, or no kubeconfig or service account leads to an apiserver.
        ExecFailed: the command could not be run in the scheduler's pod.
    """
    async with connected(access) as sides:
        namespace = access.namespace or sides.namespace
        found = await InstallationReader.over(sides, namespace=namespace, is_in_pod=IN_A_POD.exists()).read()
        if patience is not None:
            where = access.namespace or current_namespace(access.kubeconfig)
            job, pod = await asyncio.gather(
                _job(sides.slurm, found, patience),
                _pod(sides.kube, found, sides.settings, namespace=where, patience=patience),
            )
            found = msgspec.structs.replace(found, tries=True, canary_job=job, canary_pod=pod)
        diagnosis = diagnose(found)
        if by_exec:
            diagnosis = diagnosis.filled_by(await _inside(access, sides))
    lines = render_checks(diagnosis.checks, is_wide=form == "wide")
    return present(diagnosis, form, lambda: "\n".join(lines), diagnosis.exit_code)


async def _inside(access: Access, sides: Sides) -> Diagnosis:
    """Return what `sunkpy doctor` finds when it runs in the scheduler's pod of the person's Slurm cluster."""
    where = msgspec.structs.replace(access, namespace=access.namespace or sides.namespace)
    try:
        pod = await find_pod(sides.kube, where, "scheduler")
    except NoWay as why:
        raise ExecFailed(f"run doctor in the scheduler's pod: {why}") from why
    words = words_in(pod, access.kubeconfig, ("sunkpy", "doctor", "-o", "json", "-n", pod.metadata.namespace))
    said = await run_there(words)
    try:
        return msgspec.json.decode(said.out, type=Diagnosis)
    except msgspec.DecodeError as error:
        raise ExecFailed(f"{' '.join(words)}: {said.error or error}") from error


async def _job(slurm: Slurm | None, found: Installation, patience: Patience) -> CanaryJob | None:
    if slurm is None:
        return None
    return await run_job(slurm, patience, has_gpus=found.slurm is not None and found.slurm.gpus > 0)


async def _pod(
    kube: Kube, found: Installation, settings: SchedulerSettings | None, *, namespace: str, patience: Patience
) -> Canary:
    schedulers = [pod for pod in found.processes or () if pod.component == "scheduler" and pod.spec.containers]
    if not schedulers:
        return Canary(error="no pod was run, because no pod of a scheduler was found, whose image it would use")
    meant, unread = schedulers[0], list[str]()
    known = await read_settings(kube, settings, unread)
    name = next((each.scheduler_name for each in known if each.namespace == meant.metadata.namespace), None)
    if name is None:
        why = unread or [f"settings of the scheduler: there are none for namespace {meant.metadata.namespace}"]
        return Canary(error=f"no pod was run, because the scheduler's name is not known: {'; '.join(why)}")
    image = meant.spec.containers[0].image
    return await run_pod(kube, namespace=namespace, scheduler=name, image=image, patience=patience)

"""One job and one pod that do nothing, to see that they run. Both are removed again, whatever happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.objects import Pod
from sunkpy.core.overview.installation import Canary
from sunkpy.core.overview.queue import words_for
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import KubeError, NotFound
from sunkpy.slurm import Slurm, errors

NAME: Final = "sunkpy-canary"
_JOB: Final = JobSpec(name=NAME, script="#!/bin/sh\nexit 0\n", time_limit_min=1)
_MEMORY_MIB: Final = 64


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long a canary has, and how often it is looked at."""

    limit_s: float = 120.0
    every_s: float = 0.5


async def run_job(slurm: Slurm, patience: Patience) -> Canary:
    """A job of the Slurm user whose token is at hand."""
    what = "a job"
    try:
        spec = msgspec.structs.replace(_JOB, memory_mib_per_node=_MEMORY_MIB)
        job_id = (await slurm.submit_job(spec)).job_id
    except errors.SlurmError as error:
        return Canary(what=what, error=error.message)
    is_over = False

    async def look() -> str | None:
        nonlocal is_over
        job = await slurm.job(job_id)
        is_over = job.is_ended
        if "COMPLETED" in job.state:
            return ""
        state = "+".join(sorted(job.state))
        waits = f": {words_for(job.state_reason)}" if job.is_pending else ""
        return f"job {job_id} is {state}{waits}" if is_over else None

    try:
        return await _until(what, look, patience, late=f"job {job_id} has not ended")
    except errors.SlurmError as error:
        return Canary(what=what, error=error.message)
    finally:
        if not is_over:
            await _quietly(slurm.cancel_job(job_id))


async def run_pod(kube: Kube, *, namespace: str, scheduler: str, image: str, patience: Patience) -> Canary:
    """A pod for Slurm, of the image of sunkpy itself: it is on the cluster already."""
    what, name = "a pod", f"{NAME}-{time.time_ns() // 1_000_000:x}"
    try:
        await kube.create(paths.pods(namespace), _pod(name, scheduler, image, patience))
    except KubeError as error:
        return Canary(what=what, error=str(error))

    async def look() -> str | None:
        pod = await kube.get(paths.pod(namespace, name), Pod)
        if pod.status.phase == "Succeeded":
            return ""
        failed = f"pod {namespace}/{name} failed: {pod.status.reason} {pod.status.message}".rstrip(": ")
        return failed if pod.status.phase == "Failed" else None

    try:
        return await _until(what, look, patience, late=f"pod {namespace}/{name} has not ended")
    except KubeError as error:
        return Canary(what=what, error=str(error))
    finally:
        await _quietly(kube.delete(paths.pod(namespace, name)))


def _pod(name: str, scheduler: str, image: str, patience: Patience) -> dict[str, object]:
    container = {
        "name": "canary",
        "image": image,
        "command": ["sunkpy", "--version"],
        "resources": {"requests": {"cpu": "100m", "memory": f"{_MEMORY_MIB}Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": NAME}},
        "spec": {
            "schedulerName": scheduler,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "activeDeadlineSeconds": int(patience.limit_s) + 1,
            "automountServiceAccountToken": False,
            "containers": [container],
        },
    }


async def _until(what: str, look: Callable[[], Awaitable[str | None]], patience: Patience, *, late: str) -> Canary:
    """Look until there is an end; its text is the error."""
    began = time.monotonic()
    while (error := await look()) is None:
        if time.monotonic() - began > patience.limit_s:
            return Canary(what=what, error=f"{late} within {patience.limit_s:.0f} s")
        await asyncio.sleep(patience.every_s)
    return Canary(what=what, took_s=time.monotonic() - began, error=error)


async def _quietly(removal: Awaitable[None]) -> None:
    """What is gone already is removed."""
    try:
        await removal
    except (NotFound, errors.NotFound, errors.AlreadyDone):
        return

"""The canary job and pod of `kubectl sunk doctor`: they only show that jobs and pods run. The pod is deleted at the
end, and a job that has not ended is cancelled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec

from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.core.overview.checks import is_recorded
from sunkpy.core.overview.installation import Canary, CanaryJob, Seen
from sunkpy.core.overview.queue import words_for
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import KubeError, NotFound
from sunkpy.slurm import Slurm, errors

C = TypeVar("C", bound=Canary)

NAME: Final = "sunkpy-canary"
_MEMORY_MIB: Final = 64
_JOB: Final = JobSpec(name=NAME, script="#!/bin/sh\nexit 0\n", time_limit_min=1, memory_mib_per_node=_MEMORY_MIB)
_RECORDED_S: Final = 30.0
"""How long to wait until slurmdbd has the end of the job; slurmctld reports it within a second or two."""

COMPARE: Final = f"""#!/bin/bash
[[ ${{SLURM_JOB_GPUS-}} =~ ^[0-9]+$ ]] || exit {Seen.NOT_ONE_GPU:d}
[[ ${{CUDA_VISIBLE_DEVICES-}} =~ ^[^,]+$ ]] || exit {Seen.OTHER_VARIABLE:d}
[ -r /etc/sunkpy/gpus ] || exit {Seen.NO_LIST:d} # by list-gpus, in the order of Slurm's indices
index=0 own='' others=''
while read -r _ files _; do
  # Opening a pretended device always fails; with any other error than these, the job may open it.
  why=$({{ : < "${{files##*,}}"; }} 2>&1)
  case $why in
    *'not permitted'* | *'ermission denied'* | *'No such file'*) ;;
    *) if [ "$index" = "$SLURM_JOB_GPUS" ]; then own=1; else others=1; fi ;;
  esac
  index=$((index + 1))
done < /etc/sunkpy/gpus
[ -n "$own" ] || exit {Seen.NOT_ITS_DEVICE:d}
[ -z "$others" ] || exit {Seen.OTHERS_DEVICES:d}
"""
_FOUND: Final = frozenset(Seen) - {Seen.ITS_OWN}
_WITH_GPU: Final = msgspec.structs.replace(_JOB, script=COMPARE, gres_per_node="gres/gpu:1")


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How many seconds a canary job or pod may take, and the seconds between two reads of it."""

    limit_s: float = 120.0
    every_s: float = 0.5


async def run_job(slurm: Slurm, patience: Patience, *, has_gpus: bool = False) -> CanaryJob:
    """Run a canary job as the Slurm user of the connection, and return how it ended.

    `has_gpus`: the job asks for a GPU, and compares the device that it sees with the one that Slurm gave it.
    """
    try:
        job_id, no_gpu = await _submit(slurm, has_gpus=has_gpus)
    except errors.SlurmError as error:
        return CanaryJob(error=error.message)
    job: SlurmJob | None = None

    async def look() -> str | None:
        nonlocal job
        job = await slurm.job(job_id)
        if "COMPLETED" in job.state or ("FAILED" in job.state and job.exit_code in _FOUND):
            return ""
        return f"job {job_id} is {'+'.join(sorted(job.state))}" if job.is_ended else None

    async def follow() -> CanaryJob:
        try:
            canary = await _until(look, patience, late=f"job {job_id} has not ended")
            if job is None or not job.is_ended or canary.error:
                waits = f": {words_for(job.state_reason)}" if job is not None and job.is_pending else ""
                return CanaryJob(error=f"{canary.error}{waits}")
            return await _recorded(slurm, CanaryJob(took_s=canary.took_s, job=job, no_gpu=no_gpu), patience)
        except errors.SlurmError as error:
            return CanaryJob(error=error.message)

    async def cancel() -> None:
        if job is None or not job.is_ended:
            await slurm.cancel_job(job_id)

    return await _and_remove(follow(), cancel)


async def _submit(slurm: Slurm, *, has_gpus: bool) -> tuple[JobId, str]:
    """Submit the canary job. Return its ID, and a text that says why the job asks for no GPU although Slurm has some;
    the text is empty if the job asks for one, or if Slurm has none.
    """
    if not has_gpus:
        return (await slurm.submit_job(_JOB)).job_id, ""
    try:
        return (await slurm.submit_job(_WITH_GPU)).job_id, ""
    except errors.Rejected as error:
        return (await slurm.submit_job(_JOB)).job_id, error.message


async def _recorded(slurm: Slurm, canary: CanaryJob, patience: Patience) -> CanaryJob:
    """Wait until slurmdbd's record of the job agrees with slurmctld's, or until time is over. Return `canary` with the
    last record that was read, or with the reason why there is none. If slurmrestd has no slurmdbd to ask, return at
    once, with `is_accounted` False.
    """
    assert canary.job is not None
    job, found = canary.job, canary

    async def look() -> str | None:
        nonlocal found
        try:
            record = await slurm.job_record(job.id)
        except errors.Unreachable as error:
            is_accounted = error.http_status != HTTPStatus.NOT_FOUND
            no_record = error.message if is_accounted else ""
            found = msgspec.structs.replace(canary, no_record=no_record, is_accounted=is_accounted)
            return None if is_accounted else ""
        found = msgspec.structs.replace(canary, record=record)
        return "" if record is not None and is_recorded(job, record) else None

    limit_s = min(patience.limit_s, _RECORDED_S)
    await _until(look, msgspec.structs.replace(patience, limit_s=limit_s), late="")
    return found


async def run_pod(kube: Kube, *, namespace: str, scheduler: str, image: str, patience: Patience) -> Canary:
    """Run a canary (test) pod with this scheduler's name, and return how it ended. `image`: the image of sunkpy's
    processes, so that no other one has to be pulled.
    """
    name = f"{NAME}-{time.time_ns() // 1_000_000:x}"
    try:
        await kube.create(paths.pods(namespace), _pod(name, scheduler, image, patience))
    except KubeError as error:
        return Canary(error=str(error))

    async def look() -> str | None:
        pod = await kube.get(paths.pod(namespace, name), Pod)
        if pod.status.phase == "Succeeded":
            return ""
        failed = f"pod {namespace}/{name} failed: {pod.status.reason} {pod.status.message}".rstrip(": ")
        return failed if pod.status.phase == "Failed" else None

    async def follow() -> Canary:
        try:
            return await _until(look, patience, late=f"pod {namespace}/{name} has not ended")
        except KubeError as error:
            return Canary(error=str(error))

    return await _and_remove(follow(), lambda: kube.delete(paths.pod(namespace, name)))


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


async def _until(look: Callable[[], Awaitable[str | None]], patience: Patience, *, late: str) -> Canary:
    """Call `look` again and again until it returns a text, or until time is over. The text is the error that ended the
    test, empty if there was none. `late`: the error if time is over.
    """
    began = time.monotonic()
    while (error := await look()) is None:
        if time.monotonic() - began > patience.limit_s:
            return Canary(error=f"{late} within {patience.limit_s:.0f} s")
        await asyncio.sleep(patience.every_s)
    return Canary(took_s=time.monotonic() - began, error=error)


async def _and_remove(canary: Awaitable[C], remove: Callable[[], Awaitable[None]]) -> C:
    """Await the result of a test job or test pod, and remove the job or pod, also after Ctrl-C. The result says why it
    could not be removed.
    """
    left = ""
    try:
        found = await canary
    finally:
        try:
            await remove()
        except (NotFound, errors.NotFound, errors.AlreadyDone):
            pass
        except (KubeError, errors.SlurmError) as error:
            left = str(error)
    return msgspec.structs.replace(found, left=left)

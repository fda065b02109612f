"""The whole scheduler between a real Slurm and the stand-in of an apiserver."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import yaml

from sunkpy.core import names
from sunkpy.core.model.states import JobId
from sunkpy.kube.client import Kube
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.slurm import Slurm
from tests.doubles.serving import answering
from tests.integration.slurm.daemons import RealSlurm
from tests.unit.scheduler.world import OPEN, World, term


@contextlib.asynccontextmanager
async def leading_on(world: World, slurm: RealSlurm, folder: Path, **changes: object) -> AsyncIterator[Path]:
    """It leads, with its settings where people find them; gives a kubeconfig."""
    world.api.define("v1", "ConfigMap", "configmaps")
    reached = SlurmSettings(url=slurm.url, user="k8s", jwt_key_file=str(slurm.key_file))
    fields = {"cluster": "test", "namespace": "slurm", "default_partition": "low", "poll_seconds": 0.2}
    settings = SchedulerSettings(**{"slurm": reached, "access": (OPEN,)} | fields | changes)  # type: ignore[arg-type]
    labels = {"app.kubernetes.io/name": "slurm", "app.kubernetes.io/component": "scheduler"}
    meta = {"name": "slurm-scheduler", "namespace": "slurm", "labels": labels}
    world.put("configmaps", {"metadata": meta, "data": {"config.yaml": yaml.safe_dump(msgspec.to_builtins(settings))}})
    client = Slurm.connect(reached)
    try:
        async with (
            answering(world.api.handle, folder) as kubeconfig,
            await Kube.connect(kubeconfig) as kube,
            term(world, kube, client, settings),
        ):
            yield kubeconfig
    finally:
        await client.close()


async def job_of(world: World, name: str) -> JobId:
    """The job that the scheduler has noted on a pod."""
    await world.until(lambda: names.ANNOTATION_JOB_ID in (world.pod(name)["metadata"].get("annotations") or {}))
    return JobId(int(world.pod(name)["metadata"]["annotations"][names.ANNOTATION_JOB_ID]))

"""`kubectl sunk backups`: shows the backups that the CronJobs of a Slurm cluster made, and verifies that they can be
read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from sunkpy.cli.access import Access
from sunkpy.cli.connected import connected
from sunkpy.cli.options import NO_ANSWER, Form, Shown, present, show
from sunkpy.core.model.objects import KubeObject
from sunkpy.core.model.times import utc_now
from sunkpy.core.overview.backups import (
    COMPONENTS,
    Backup,
    Backups,
    CronJob,
    Run,
    backup_tables,
    find_backup,
    job_that_verifies,
)
from sunkpy.kube import paths
from sunkpy.kube.client import Kube

U = TypeVar("U", bound=KubeObject)

_SELECTORS: Final = tuple(f"app.kubernetes.io/name=slurm,app.kubernetes.io/component={each}" for each in COMPONENTS)
_NONE: Final = (
    "No CronJob makes backups: enable slurmctld.backup and accounting.backup of chart slurm, or name a namespace: -n."
)
_EVERY_S: Final = 0.5


async def list_backups(access: Access, form: Form) -> Shown:
    """Return the output of `kubectl sunk backups list`: what the last run of each CronJob that makes backups reported.

    Raises:
        BadSettings, KubeError: the settings cannot be used, or the CronJobs or their pods could not be read.
    """
    async with connected(access) as sides:
        found = await read_backups(sides.kube, access.namespace or sides.namespace)
    return _present(found, form, is_wide=form == "wide")


async def verify_backups(access: Access, form: Form, limit_s: float) -> Shown:
    """Check the backups of each CronJob by a Job that reads them, wait until these Jobs have ended (at most `limit_s`
    seconds), and return the output of `kubectl sunk backups verify`.

    Raises:
        BadSettings, KubeError: the settings cannot be used, the apiserver cannot be reached, or the person may not
            create a Job.
    """
    async with connected(access) as sides:
        cron_jobs = await _cron_jobs(sides.kube, access.namespace or sides.namespace)
        found = await asyncio.gather(*(_verify(sides.kube, each, limit_s) for each in cron_jobs))
    return _present(found, form, is_wide=True)


async def read_backups(kube: Kube, namespace: str) -> tuple[Backup, ...]:
    """Return the backups of each CronJob that makes backups in a namespace, or in all namespaces if `namespace` is
    empty.

    Raises:
        KubeError: the CronJobs or their pods could not be read.
    """
    cron_jobs = await _cron_jobs(kube, namespace)
    runs = await _of_backups(kube, paths.pods(namespace), Run)
    return tuple(find_backup(each, runs, utc_now()) for each in cron_jobs)


async def _cron_jobs(kube: Kube, namespace: str) -> list[CronJob]:
    return sorted(await _of_backups(kube, paths.cron_jobs(namespace), CronJob), key=lambda each: each.key)


async def _of_backups(kube: Kube, path: str, kind: type[U]) -> list[U]:
    listed = await asyncio.gather(*(kube.list_objects(path, kind, label_selector=each) for each in _SELECTORS))
    return [each for found in listed for each in found]


async def _verify(kube: Kube, cron_job: CronJob, limit_s: float) -> Backup:
    name = f"{cron_job.name}-verify-{time.time_ns() // 1_000_000:x}"
    await kube.create(paths.jobs(cron_job.metadata.namespace), job_that_verifies(cron_job, name))
    where, began = paths.pods(cron_job.metadata.namespace), time.monotonic()
    while True:
        is_read = await _has_ended(kube, where, name)
        if is_read or time.monotonic() - began > limit_s:
            break
        await asyncio.sleep(_EVERY_S)
    # All runs: whether the last backup was made counts, too.
    found = find_backup(cron_job, await _of_backups(kube, where, Run), utc_now())
    if is_read:
        return found
    problem = f"the backup was not read within {limit_s:.0f} s: kubectl describe job {name}"
    return msgspec.structs.replace(found, problem=problem)


async def _has_ended(kube: Kube, pods: str, job: str) -> bool:
    runs = await kube.list_objects(pods, Run, label_selector=f"batch.kubernetes.io/job-name={job}")
    return any(run.end is not None for run in runs)


def _present(found: Sequence[Backup], form: Form, *, is_wide: bool) -> Shown:
    problems = [f"{backup.namespace}/{backup.cron_job}: {backup.problem}" for backup in found if backup.problem]

    def text() -> str:
        tables = show(backup_tables(found, utc_now(), is_wide=is_wide), before="" if found else _NONE)
        return "\n\n".join(filter(None, [tables, "\n".join(problems)]))

    return present(Backups(backups=tuple(found)), form, text, NO_ANSWER if problems or not found else 0)

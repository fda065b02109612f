"""When slurmctld last saved its jobs, as it is seen from beside it."""

from __future__ import annotations

import time

import pytest

from sunkpy.core.model.job_spec import JobSpec
from sunkpy.slurm import Slurm
from sunkpy.volumes.metrics import VolumesCollector
from sunkpy.volumes.settings import VolumesSettings
from tests.integration.slurm.asking import happens
from tests.integration.slurm.daemons import RealSlurm

pytestmark = pytest.mark.integration

WAITS = JobSpec(name="waits", script="#!/bin/bash\n", memory_mib_per_node=10, hold=True)


def saved(real: RealSlurm) -> float:
    """In seconds since 1970; 0: never yet."""
    settings = VolumesSettings(volumes={}, job_state=str(real.root / "var/lib/slurm/job_state"))
    (family,) = (each for each in VolumesCollector(settings, began=0).collect() if "job_state" in each.name)
    return max((sample.value for sample in family.samples), default=0.0)


async def test_a_change_is_saved_within_seconds_and_one_that_cannot_be_is_seen(real: RealSlurm, admin: Slurm) -> None:
    """As on a full volume: slurmctld answers, takes jobs, and would forget them."""

    async def is_saved() -> bool:
        return saved(real) >= changed

    async def has_failed() -> bool:
        return "job_state.new" in (real.root / "var/log/slurmctld.log").read_text()

    changed = int(time.time())
    await admin.submit_job(WAITS)
    await happens(real, is_saved)
    (hindrance := real.root / "var/lib/slurm/job_state.new").mkdir()
    before, changed = saved(real), int(time.time())
    await admin.submit_job(WAITS)
    await happens(real, has_failed)
    assert (await admin.ping()).is_up
    assert saved(real) == before
    hindrance.rmdir()
    await admin.submit_job(WAITS)
    await happens(real, is_saved)

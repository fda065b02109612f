"""How a placeholder is told that its pods have ended, while Slurm can be asked and while it cannot."""

import pytest
from prometheus_client import CollectorRegistry

from sunkpy.core.gang.actions import Finish
from sunkpy.core.gang.identity import GangId
from sunkpy.runtime.queue import WorkQueue
from sunkpy.scheduler.job_search import JobSearch
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.submit import JobWriter
from sunkpy.slurm.errors import Unreachable
from tests.unit.scheduler.world import World, connections


async def test_a_placeholder_that_slurm_could_not_be_asked_about_is_not_taken_for_deaf(tmp_path):
    """It would be cancelled, and Slurm never told how its pods ended."""
    world, now = World(), 1000.0
    gang = GangId(namespace="default", name="web", uid="u")
    job_id = world.slurm.add_job("RUNNING", comment=gang.comment(), nodes="n1")
    async with connections(world, tmp_path) as (_, slurm, _):
        ledger, metrics = Ledger(lambda: now), SchedulerMetrics(CollectorRegistry())
        search = JobSearch(slurm, user="k8s", ledger=ledger, clock=lambda: now)
        parts = {"ledger": ledger, "queue": WorkQueue("gangs"), "metrics": metrics, "clock": lambda: now}
        jobs = JobWriter(slurm=slurm, user="k8s", search=search, **parts)
        entry = ledger.ensure(gang)
        job = ledger.add_job(entry, job_id, user="k8s")
        world.slurm_is_up = False
        with pytest.raises(Unreachable):
            await jobs.finish(entry, Finish(job=job_id, exit_code=0))
        now += 3600.0
        told = job.view(now)
        assert (told.told_s_ago, told.is_let_go) == (0.0, True)
        world.slurm_is_up = True
        await jobs.finish(entry, Finish(job=job_id, exit_code=0))
        assert world.signals == [(job_id, "USR1")]
        now += 20.0
        assert job.view(now).told_s_ago == 20.0

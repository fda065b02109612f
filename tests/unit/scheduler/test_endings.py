"""How the scheduler ends a placeholder whose pods have ended, while Slurm answers and while it does not."""

import pytest

from sunkpy.core.gang.actions import Finish
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.states import SlurmJob
from sunkpy.scheduler.jobs.search import JobSearch
from sunkpy.scheduler.jobs.writer import JobWriter
from sunkpy.slurm.errors import Unreachable
from tests.doubles.leading import make_leader
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, connections, leading


async def test_a_placeholder_that_slurm_could_not_be_asked_about_is_not_taken_for_deaf(tmp_path):
    """The scheduler would cancel it, and Slurm would never know how its pods ended."""
    world, now = World(), 1000.0
    gang = GangId(namespace="default", name="web", uid="u")
    job_id = world.slurm.add_job("RUNNING", comment=gang.comment(), nodes="n1")
    async with connections(world, tmp_path) as (_, slurm, _):
        leader = make_leader(slurm, clock=lambda: now)
        jobs = JobWriter(leader, JobSearch(leader, learned=lambda *_: None))
        record = leader.ledger.ensure(gang)
        leader.ledger.add_job(record, SlurmJob(id=job_id, user="k8s"))
        world.slurm_is_up = False
        with pytest.raises(Unreachable):
            await jobs.finish(record, Finish(job=job_id, exit_code=0))
        now += 3600.0
        told = record.jobs[job_id]
        assert (told.signal_answered_at, told.is_let_go) == (None, True)
        world.slurm_is_up = True
        await jobs.finish(record, Finish(job=job_id, exit_code=0))
        assert world.signals == [(job_id, "USR1")]
        now += 20.0
        assert record.jobs[job_id].signal_answered_at == now - 20.0


@pytest.mark.parametrize(("phase", "signal"), [("Succeeded", "USR1"), ("Failed", "USR2")])
async def test_the_job_of_a_pod_that_is_deleted_right_after_it_has_ended_ends_as_the_pod_did(tmp_path, phase, signal):
    """Airflow, CI runners and `kubectl run --rm` do so; `afterok` waits for the job."""
    world = World()
    world.add_node(1)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.pod_ends(phase)
        world.pod_vanishes()
        await world.until(lambda: world.signals)
        world.set_job(job_id, "COMPLETED")
        await call("epilog", job_id)
        assert (world.signals, world.cancelled) == ([(job_id, signal)], [])


async def test_the_job_of_a_pod_that_is_deleted_by_force_is_cancelled(tmp_path):
    world = World()
    world.add_node(1)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.pod_runs()
        world.pod_vanishes()
        await world.until(lambda: world.cancelled == [job_id])
        assert world.signals == []


@pytest.mark.parametrize(
    ("state", "condition"), [("PREEMPTED", "DisruptionTarget"), ("TIMEOUT", "sunkpy.dev/JobEnded")]
)
async def test_an_evicted_pod_says_whether_it_was_disrupted(tmp_path, state, condition):
    world = World()
    world.add_node(1)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call)
        world.set_job(job_id, state, "COMPLETING", nodes="n1")
        await world.until(lambda: world.deleted == ["web"])
        said = {each["type"] for each in world.pod()["status"]["conditions"]}
        assert said & {"DisruptionTarget", "sunkpy.dev/JobEnded"} == {condition}

"""A job of which Slurm tells something that cannot be read concerns nobody else, and nothing follows from it."""

import pytest
from structlog.testing import capture_logs

from sunkpy.core import names
from tests.unit.scheduler.test_adopt import add_bound
from tests.unit.scheduler.test_end_causes import ABOVE, asking
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, leading

ODD = "gpu-[3-1]"


@pytest.fixture
def world():
    world = World()
    for number in (1, 2):
        world.add_node(number)
    return world


def job_of(world, pod):
    return next(id for id, job in world.jobs.items() if f"/{pod}:" in job["comment"])


async def test_a_list_of_nodes_that_cannot_be_read_keeps_no_other_pod_waiting(world, tmp_path):
    with capture_logs() as logs:
        async with leading(world, tmp_path):
            await _keeps_no_other_waiting(world)
    (told,) = (line for line in logs if line["log_level"] == "warning" and ODD in line.get("error", ""))
    assert told["error"] == "hostlist 'gpu-[3-1]': '3-1' is not a range, or too long"


async def _keeps_no_other_waiting(world):
    for name in ("web", "other"):
        world.add_pod(name)
    await world.until(lambda: len(world.submissions) == 2)
    odd, other = job_of(world, "web"), job_of(world, "other")
    world.set_job(odd, "RUNNING", nodes=ODD)
    await world.until(lambda: world.slurm.asked.count(f"job {odd}") > 2)
    world.set_job(other, "RUNNING", nodes="n2")
    await world.until(lambda: world.bindings == [("other", "node-2")])
    assert (world.cancelled, world.deleted) == ([], [])
    world.set_job(odd, "RUNNING", nodes="n1")
    await world.until(lambda: ("web", "node-1") in world.bindings)


async def test_a_new_leader_takes_over_although_jobs_cannot_be_read_and_submits_none_of_them_again(world, tmp_path):
    world.slurm.add_job("PENDING", comment="", user="alice", excluded_nodes=ODD)
    odd = world.add_job(world.add_pod("submitted"), "PENDING", excluded_nodes=ODD)
    async with leading(world, tmp_path):
        world.add_pod("new")
        await world.until(lambda: world.submissions)
        world.set_job(job_of(world, "new"), "RUNNING", nodes="n2")
        await world.until(lambda: world.bindings == [("new", "node-2")])
        world.set_job(odd, "RUNNING", nodes="n1", excluded_nodes="")
        await world.until(lambda: ("submitted", "node-1") in world.bindings)
        assert [job["name"] for job in world.submissions] == ["new"]


async def test_a_bound_pod_whose_job_cannot_be_read_stays(world, tmp_path):
    odd, other = add_bound(world, "web", 1), add_bound(world, "other", 2)
    world.set_job(odd, "RUNNING", nodes=ODD)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        assert await call("prolog", other, node=2) == (200, {"done": True})
        assert (await call("gate", 4711, marked=[odd]))[0] == 503
        world.add_pod("new")
        await world.until(lambda: world.submissions)
        world.set_job(other, "PREEMPTED", nodes="n2")
        await world.until(lambda: world.deleted == ["other"])
        assert world.pod()["metadata"]["annotations"][names.ANNOTATION_JOB_ID] == str(odd)


async def test_a_job_that_cannot_be_read_ends_as_its_pod_did(world, tmp_path):
    odd = add_bound(world, "web", 1)
    world.set_job(odd, "RUNNING", nodes=ODD)
    async with leading(world, tmp_path):
        await world.until(lambda: world.term._ledger.all_jobs_known)
        world.pod_is_gone()
        await world.until(lambda: world.signals == [(odd, "USR2")], within_s=5.0)


async def test_jobs_and_partitions_that_cannot_be_read_hide_no_preemptor(world, tmp_path):
    async with asking(world, tmp_path) as (causes, see):
        job = world.slurm.add_job("PREEMPTED", comment="", nodes="n1")
        preemptor = world.slurm.add_job("PENDING", **ABOVE)
        world.slurm.add_job("PENDING", required_nodes=ODD, **ABOVE)
        world.slurm.configured["low"] = ODD
        found = await causes.by_whom({job: "n1"}, await see())
        assert {job: each.id for job, each in found.items()} == {job: preemptor}

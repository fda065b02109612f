"""Which job took the place of one that was preempted, when it has begun by the time Slurm is asked."""

import asyncio
import contextlib

import pytest

from sunkpy.core.gang.job.ends import NEWEST_ASKED
from sunkpy.scheduler.jobs.end_causes import EndCauses
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, connections, leading

ABOVE = {"comment": "", "user": "alice", "partition": "high"}


@pytest.fixture
def world():
    world = World()
    world.add_node(1)
    return world


async def test_a_preemptor_that_has_begun_before_slurm_is_asked_is_named(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        preempted = await bound_pod(world, call)
        preemptor = world.slurm.add_job("PENDING", **ABOVE)
        world.api.before_delete = lambda: world.set_job(preemptor, "RUNNING", "CONFIGURING", nodes="n1")
        world.set_job(preempted, "PREEMPTED", "COMPLETING", nodes="n1")
        (note,) = await world.until(lambda: world.notes("PreemptionByScheduler"))
        assert f"preempted by Slurm job {preemptor} (user alice, partition high); the pod is evicted" in note


async def test_whose_job_preempted_is_not_told_where_slurm_shows_people_their_own_jobs_alone(world, tmp_path):
    async with leading(world, tmp_path, private_jobs=True) as server, hook_client(server) as call:
        preempted = await bound_pod(world, call)
        preemptor = world.slurm.add_job("PENDING", **ABOVE)
        world.api.before_delete = lambda: world.set_job(preemptor, "RUNNING", "CONFIGURING", nodes="n1")
        world.set_job(preempted, "PREEMPTED", "COMPLETING", nodes="n1")
        (note,) = await world.until(lambda: world.notes("PreemptionByScheduler"))
        assert note == f"Slurm job {preempted} was preempted; the pod is evicted"


async def test_who_was_on_the_node_before_the_preemption_is_not_named(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        preempted = await bound_pod(world, call)
        world.slurm.add_job("RUNNING", nodes="n1", **ABOVE)
        world.set_job(preempted, "PREEMPTED", "COMPLETING", nodes="n1")
        (note,) = await world.until(lambda: world.notes("PreemptionByScheduler"))
        assert note == f"Slurm job {preempted} was preempted; the pod is evicted"


@contextlib.asynccontextmanager
async def asking(world, tmp_path):
    """The causes, and how they see what Slurm says now."""
    async with connections(world, tmp_path) as (_, slurm, _):
        causes = EndCauses(slurm)

        async def see():
            causes.saw(states := await slurm.jobs_state())
            return states

        yield causes, see


async def test_who_began_beside_a_job_before_that_was_preempted_is_not_named(world, tmp_path):
    """It waited when another job was preempted, and in an answer that is older than the preemption."""
    preempted = frozenset({"PREEMPTED"})
    async with asking(world, tmp_path) as (causes, see):
        earlier, later = (world.slurm.add_job("RUNNING", comment="", nodes="n1") for _ in range(2))
        beside = world.slurm.add_job("PENDING", **ABOVE)
        world.set_job(earlier, "PREEMPTED", nodes="n1")
        await see()
        causes.of(earlier, known=preempted)
        causes.of(later, known=preempted)
        world.set_job(beside, "RUNNING", nodes="n1")
        world.set_job(later, "PREEMPTED", nodes="n1")
        states = await see()
        causes.of(later, known=preempted)
        found = await causes.by_whom({earlier: "n1", later: "n1"}, states)
        assert {job: preemptor.id for job, preemptor in found.items()} == {earlier: beside}


async def test_a_preemption_that_a_hook_tells_has_the_states_read_at_once_and_only_then(world, tmp_path):
    """Between two polls of a steady scheduler a preemptor would begin unseen."""
    hurried = []
    async with connections(world, tmp_path) as (_, slurm, _):
        causes = EndCauses(slurm, hurry=lambda: hurried.append(True))
        job = world.slurm.add_job("RUNNING", comment="", nodes="n1")
        causes.saw(await slurm.jobs_state())
        for _ in range(3):
            causes.of(job, known=frozenset({"PREEMPTED"}))
        assert hurried == [True]
        seen = world.slurm.add_job("PREEMPTED", comment="", nodes="n1")
        causes.saw(await slurm.jobs_state())
        causes.of(seen, known=frozenset({"PREEMPTED"}))
        causes.of(world.slurm.add_job("FAILED", comment="", nodes="n1"), known=frozenset({"FAILED"}))
        assert hurried == [True]


async def test_who_waits_in_the_first_answer_after_a_hook_told_of_the_preemption_is_named(world, tmp_path):
    async with asking(world, tmp_path) as (causes, see):
        job = world.slurm.add_job("RUNNING", comment="", nodes="n1")
        preemptor = world.slurm.add_job("PENDING", **ABOVE)
        await see()
        causes.of(job, known=frozenset({"PREEMPTED"}))
        world.set_job(job, "PREEMPTED", nodes="n1")
        await see()
        world.set_job(preemptor, "RUNNING", nodes="n1")
        found = await causes.by_whom({job: "n1"}, await see())
        assert {job: by.id for job, by in found.items()} == {job: preemptor}


def at(second):
    return {"number": second, "set": True}


@pytest.mark.parametrize("is_new", [False, True])
async def test_who_began_and_ended_before_slurm_says_that_another_was_preempted_is_named(world, tmp_path, is_new):
    """By Slurm's clock, as a job may have begun there before: on a node where the pods have left at once."""
    async with asking(world, tmp_path) as (causes, see):
        job = world.slurm.add_job("RUNNING", comment="", nodes="n1")
        preemptor, beside = (None if is_new else world.slurm.add_job("PENDING", **ABOVE) for _ in range(2))
        await see()
        causes.of(job, known=frozenset({"PREEMPTED"}))
        if preemptor is None or beside is None:
            preemptor, beside = (world.slurm.add_job("PENDING", **ABOVE) for _ in range(2))
        world.set_job(job, "PREEMPTED", nodes="n1", end_time=at(100))
        world.set_job(beside, "RUNNING", nodes="n1", start_time=at(99))
        world.set_job(preemptor, "COMPLETED", nodes="n1", start_time=at(101), end_time=at(102))
        found = await causes.by_whom({job: "n1"}, await see())
        assert {job: by.id for job, by in found.items()} == {job: preemptor}


async def test_an_answer_that_is_older_than_the_preemption_is_not_the_one_to_search_in(world, tmp_path):
    async with asking(world, tmp_path) as (causes, see):
        job = world.slurm.add_job("RUNNING", comment="", nodes="n1")
        causes.of(job, known=frozenset({"PREEMPTED"}))
        states = asyncio.create_task(causes.next_states(lambda: [job]))
        await see()
        world.set_job(job, "PREEMPTED", nodes="n1")
        await see()
        assert (await states)[job] == {"PREEMPTED"}


async def test_who_waited_and_runs_elsewhere_or_may_not_preempt_is_not_named(world, tmp_path):
    async with asking(world, tmp_path) as (causes, see):
        job = world.slurm.add_job("PREEMPTED", comment="", nodes="n1")
        elsewhere = world.slurm.add_job("PENDING", **ABOVE)
        equal = world.slurm.add_job("PENDING", comment="", user="alice")
        await see()
        causes.of(job, known=frozenset({"PREEMPTED"}))
        world.set_job(elsewhere, "RUNNING", nodes="n2")
        world.set_job(equal, "RUNNING", nodes="n1")
        assert await causes.by_whom({job: "n1"}, await see()) == {}


@pytest.mark.parametrize("each_s", [0.1, 3600.0])
async def test_a_preemption_among_many_that_wait_costs_a_few_requests_and_the_next_search_its_turn(
    world, tmp_path, each_s
):
    world.hasten(preemptors_each_s=each_s)
    for number in (2, 3):
        world.add_node(number)
    async with leading(world, tmp_path):
        jobs = []
        for number in (1, 2, 3):
            world.add_pod(f"web-{number}")
            await world.until(lambda number=number: len(world.submissions) == number)
            jobs.append(max(world.jobs))
            world.set_job(jobs[-1], "RUNNING", nodes=f"n{number}")
            await world.until(lambda number=number: (f"web-{number}", f"node-{number}") in world.bindings)
        for _ in range(120):
            world.slurm.add_job("PENDING", comment="", user="bob")
        preemptor = world.slurm.add_job("PENDING", **ABOVE | {"node_count": {"number": 3, "set": True}})
        world.slurm.asked.clear()
        for number in (1, 2):
            world.set_job(jobs[number - 1], "PREEMPTED", nodes=f"n{number}")
        await world.until(lambda: len(world.notes("PreemptionByScheduler")) == 2)
        assert all(f"by Slurm job {preemptor}" in note for note in world.notes("PreemptionByScheduler"))
        assert len(asked_for_text(world, jobs)) <= 1 + NEWEST_ASKED
        searches = 1 if each_s > 1000 else 2
        world.set_job(jobs[2], "PREEMPTED", nodes="n3")
        await world.until(lambda: "web-3" in world.deleted)
        polls = world.slurm.states_read
        await world.until(lambda: world.slurm.states_read >= polls + 3)
        await world.until(lambda: len(world.notes("PreemptionByScheduler")) == 1 + searches)
        assert len(asked_for_text(world, jobs)) <= searches * (1 + NEWEST_ASKED)


def asked_for_text(world, own):
    """What was asked of slurmrestd but the states of all jobs and our own jobs."""
    return [each for each in world.slurm.asked if each not in {f"job {job}" for job in own}]

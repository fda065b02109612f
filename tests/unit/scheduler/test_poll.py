"""How often the states of jobs are read, by what it costs."""

import time

import pytest

from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.states import SlurmJob
from sunkpy.scheduler.jobs.due import waits_for_poll
from sunkpy.scheduler.jobs.poll import JobPoller
from tests.doubles.leading import make_leader
from tests.unit.core.gang.jobs import make_job
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, away_for_a_poll, connections, leading

POLL_S = 1.0


@pytest.mark.parametrize(
    ("took_s", "pause_s"),
    [
        pytest.param(0.001, POLL_S, id="each second"),
        pytest.param(0.1, 1.0, id="a tenth of the time"),
        pytest.param(0.5, 5.0, id="a tenth of the time, less often"),
        pytest.param(25.0, 30.0, id="each half a minute at least"),
    ],
)
async def test_states_are_read_a_tenth_of_the_time_at_most(tmp_path, took_s, pause_s):
    world, now = World(), [0.0]

    def pass_by():
        now[0] += took_s

    world.slurm.before_states = pass_by
    async with connections(world, tmp_path) as (_, slurm, _):
        poller = JobPoller(make_leader(slurm, clock=lambda: now[0], poll_seconds=POLL_S))
        await poller.poll()
        assert poller.pause_s == pytest.approx(pause_s)


async def pause_of_polls(world):
    """Seconds between two of them, as Slurm sees them come."""
    came_s = []
    world.slurm.before_states = lambda: came_s.append(time.monotonic())
    await world.until(lambda: len(came_s) == 2)
    return came_s[1] - came_s[0]


async def test_while_hooks_tell_all_that_counts_it_is_asked_a_fifth_as_often(tmp_path):
    world = World()
    world.add_node(1)
    async with leading(world, tmp_path, poll_seconds=0.2) as server, hook_client(server) as call:
        await bound_pod(world, call)
        world.add_pod("queued")
        await world.until(lambda: len(world.jobs) == 2)
        assert await pause_of_polls(world) > 0.9


async def test_what_only_a_poll_tells_is_asked_without_delay(tmp_path):
    """An epilog has called, and the job is over when Slurm says so."""
    world = World()
    world.add_node(1)
    async with leading(world, tmp_path, poll_seconds=1.0) as server, hook_client(server) as call:
        job = await bound_pod(world, call)
        await pause_of_polls(world)
        world.pod_ends("Succeeded")
        await world.until(lambda: world.signals)
        world.set_job(job, "COMPLETED", nodes="n1")
        assert await call("epilog", job) == (200, {"done": True})
        await world.until(lambda: not len(world.term._ledger), within_s=3.0)


async def test_after_an_outage_and_beside_nodes_without_hooks_it_is_asked_as_often_as_may_be(tmp_path):
    world = World()
    world.add_node(1)
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        await bound_pod(world, call)
        await world.until(lambda: world.term._poller.is_steady)
        world.slurm.put("outside", "IDLE", "EXTERNAL")
        world.term._slurm_nodes.hasten()
        await world.until(lambda: not world.term._poller.is_steady)
        world.slurm.put("outside", "IDLE")
        world.term._slurm_nodes.hasten()
        await world.until(lambda: world.term._poller.is_steady)
        await away_for_a_poll(world)
        assert not world.term._poller.is_steady


@pytest.mark.parametrize(
    ("job", "waits"),
    [
        pytest.param(make_job(), False, id="submitted"),
        pytest.param(make_job("PENDING"), False, id="queued"),
        pytest.param(make_job("PENDING", cancelled_at=1.0), True, id="queued and cancelled"),
        pytest.param(make_job("RUNNING", nodes=("n1",), prologs={"n1": 1.0}), False, id="runs"),
        pytest.param(
            make_job("RUNNING", nodes=("n1",), prologs={"n1": 1.0}, signalled_at=1.0), False, id="told to end"
        ),
        pytest.param(make_job("RUNNING", nodes=("n1", "n2"), prologs={"n1": 1.0}), True, id="begins on some nodes"),
        pytest.param(make_job("RUNNING"), True, id="runs, and nobody has told where"),
        pytest.param(make_job("RUNNING", epilogs={"n1": 1.0}), True, id="an epilog has called"),
        pytest.param(make_job("RUNNING", missing=1), True, id="not in the last answer"),
        pytest.param(make_job("SUSPENDED"), True, id="suspended"),
        pytest.param(make_job("COMPLETED"), True, id="ended"),
    ],
)
def test_some_jobs_wait_for_a_poll(job, waits):
    assert waits_for_poll(job) == waits


@pytest.mark.parametrize("pause_s", [0.05, 1.0, 5.0])
async def test_it_is_asked_why_ten_jobs_a_second_wait_the_oldest_first(tmp_path, pause_s):
    world, now = World(), [0.0]
    async with connections(world, tmp_path) as (_, slurm, _):
        leader = make_leader(slurm, clock=lambda: now[0])
        for number in range(200):
            gang = GangId(namespace="default", name=f"web-{number}", uid=f"uid-{number}")
            job = world.slurm.add_job("PENDING", comment=gang.comment(), admin_comment=gang.comment())
            leader.ledger.add_job(leader.ledger.ensure(gang), SlurmJob(id=job, user="k8s"))
        poller = JobPoller(leader)
        await poller.poll()
        for _ in range(round(5.0 / pause_s)):
            now[0] += pause_s
            await poller.poll()
        assert 20 <= len(world.slurm.asked) <= 50
        assert set(world.slurm.asked) == {f"job {100 + number}" for number in range(len(world.slurm.asked))}

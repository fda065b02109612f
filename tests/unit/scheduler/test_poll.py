"""How often the states of jobs are read, by what it costs; `test_burst` has why they are read at once."""

import asyncio
import types

import msgspec
import pytest

from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.states import SlurmJob
from sunkpy.scheduler.jobs import poll as job_poll
from sunkpy.scheduler.jobs.poll import JobPoller
from sunkpy.scheduler.settings import TIMES
from tests.doubles.leading import make_leader
from tests.unit.scheduler.world import World, connections

GANG = GangId(namespace="default", name="web", uid="uid")
POLL_S = 1.0
STEPS, TURNS = 50, 5


@pytest.mark.parametrize(
    ("took_s", "is_young", "pause_s"),
    [
        pytest.param(0.001, False, POLL_S, id="each second"),
        pytest.param(0.1, False, 1.0, id="a tenth of the time"),
        pytest.param(0.5, False, 5.0, id="a tenth of the time, less often"),
        pytest.param(25.0, False, 30.0, id="each half a minute at least"),
        pytest.param(0.001, True, job_poll.SOON_S, id="soon while a job is young"),
        pytest.param(0.05, True, 0.5, id="a tenth of the time while a job is young"),
        pytest.param(0.5, True, 5.0, id="no sooner while a job is young"),
        pytest.param(25.0, True, 30.0, id="each half a minute while a job is young"),
    ],
)
async def test_states_are_read_a_tenth_of_the_time_at_most(tmp_path, monkeypatch, took_s, is_young, pause_s):
    world, now, asked = World(), [0.0], []

    def clock():
        asked.append(now[0])
        return now[0]

    def pass_by(time_s):
        now[0] += time_s

    monkeypatch.setattr(job_poll, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    world.slurm.before_states = lambda: pass_by(took_s)
    async with connections(world, tmp_path) as (_, slurm, _):
        times = msgspec.structs.replace(TIMES, young_s=3600.0 if is_young else 0.0)
        leader = make_leader(slurm, clock=clock, poll_seconds=POLL_S, times=times)
        id = world.slurm.add_job("COMPLETING", comment=GANG.comment())
        record = leader.ledger.ensure(GANG)
        leader.ledger.add_job(record, SlurmJob(id=id, user="k8s"))
        poller = JobPoller(leader)
        asked.clear()
        running = asyncio.ensure_future(poller.run())
        await world.until(lambda: record.jobs[id].state)
        while len(asked) == 1 and now[0] < 2 * (took_s + pause_s):
            pass_by(pause_s / STEPS)
            poller.hurry()
            for _ in range(TURNS):
                await asyncio.sleep(0)
        running.cancel()
    first, second = asked
    assert pause_s <= second - first - took_s <= 1.1 * pause_s

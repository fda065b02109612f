"""How often the states of jobs are read, by what it costs."""

import pytest

from sunkpy.scheduler.jobs.poll import JobPoller
from tests.doubles.leading import make_leader
from tests.unit.scheduler.world import World, connections

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

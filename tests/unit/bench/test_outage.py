"""What the bench of outages plans, and which nodes it calls lost."""

from __future__ import annotations

import pytest
from click import ClickException

from tests.bench.chaos.record import Inflicted, Record, SlurmLook
from tests.bench.chaos.schedule import Door
from tests.bench.outage import PARTS, QUEUED, make_plan, of_nodes, which


def test_one_part_may_be_asked_for_alone():
    assert which("") == PARTS
    assert which("apiserver") == ("apiserver",)
    with pytest.raises(ClickException) as refused:
        which("slurmctld")
    wanted = "--only slurmctld: no outage of it is known; give one of scheduler, slurmrestd, apiserver"
    assert str(refused.value) == wanted


@pytest.mark.parametrize("part", PARTS)
def test_fifty_jobs_come_before_it_and_pods_during_it(part):
    plan = make_plan(part, minutes=20, seed=1, nodes=3)
    (fault,) = plan.faults
    assert fault.lasts_s == 1200
    assert sum(job.door is Door.SBATCH and job.at_s < fault.at_s for job in plan.jobs) >= QUEUED
    assert any(job.door is Door.POD and fault.at_s < job.at_s < fault.ends_s for job in plan.jobs)
    assert len({job.number for job in plan.jobs}) == len(plan.jobs)


@pytest.mark.parametrize(
    ("states", "out", "lost"),
    [
        ({100: "IDLE", 200: "IDLE"}, 0, 0),
        ({100: "IDLE+DRAIN", 131: "IDLE"}, 1, 0),
        ({100: "IDLE+DRAIN", 125: "IDLE+DRAIN", 131: "IDLE"}, 1, 0),
        ({100: "IDLE", 200: "DOWN*"}, 0, 1),
        ({100: "MIXED+DRAIN", 200: "MIXED+DRAIN"}, 1, 1),
    ],
)
def test_a_node_is_lost_that_is_out_of_use_when_both_sides_had_time_to_agree(states, out, lost):
    (fault,) = make_plan("scheduler", minutes=1, seed=1, nodes=1).faults
    looks = tuple(
        SlurmLook(at_s=float(at_s), nodes={"slurm-1": {"State": state, "Reason": "why"}})
        for at_s, state in states.items()
    )
    inflicted = Inflicted(planned=fault, begun_s=60.0, held_s=61.0, mending_s=120.0, mended_s=100.5)
    record = Record(started_s=0.0, slurm_nodes={"node-1": "slurm-1"}, looks=looks, faults=(inflicted,))
    during, after = of_nodes(record)
    assert (during.value, after.value, after.holds) == (out, lost, not lost)

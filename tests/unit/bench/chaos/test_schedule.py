"""The plan is a function of the seed, and what it plans can be undone before the quiet begins."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bench.chaos.schedule import (
    ACCOUNTING,
    AT_ONCE,
    PARTS,
    Door,
    Fault,
    Manner,
    Plan,
    PlannedFault,
    clash,
    make_plan,
    plan_faults,
    plan_jobs,
)

NODES = ("node-1", "node-2", "node-3")
plans = st.builds(
    lambda seed, minutes: make_plan(seed=seed, minutes=minutes, nodes=NODES),
    st.integers(min_value=0, max_value=10_000),
    st.sampled_from([3.0, 5.0, 30.0]),
)


def half_an_hour(seed: int = 1) -> Plan:
    return make_plan(seed=seed, minutes=30, nodes=NODES)


@given(st.integers(min_value=0, max_value=10_000))
@settings(max_examples=20)
def test_the_same_seed_gives_the_same_plan(seed):
    assert make_plan(seed=seed, minutes=5, nodes=NODES) == make_plan(seed=seed, minutes=5, nodes=NODES)


def test_another_seed_gives_another_plan():
    assert half_an_hour(1).faults != half_an_hour(2).faults


def test_a_plan_is_the_same_in_another_process():
    first, *_ = half_an_hour().faults
    assert (first.number, first.at_s, first.text) == (1, 20.0, "#1 " + first.text.removeprefix("#1 "))
    assert make_plan(seed=7, minutes=5, nodes=NODES).jobs[0].at_s == 5.0


@given(plans)
@settings(max_examples=50)
def test_every_fault_is_undone_before_the_quiet_begins(plan):
    assert all(fault.ends_s <= plan.quiet_s for fault in plan.faults)
    assert plan.end_s - plan.quiet_s >= 75


@given(plans)
@settings(max_examples=50)
def test_few_faults_last_at_the_same_time(plan):
    for fault in plan.faults:
        lasting = [other for other in plan.faults if other.at_s <= fault.at_s < other.ends_s]
        assert len(lasting) <= AT_ONCE


@given(plans)
@settings(max_examples=50)
def test_no_fault_meets_another_that_would_undo_it(plan):
    for index, later in enumerate(plan.faults):
        assert not any(clash(later, earlier) for earlier in plan.faults[:index])


def test_half_an_hour_sees_every_kind_and_kills_every_part():
    plan = half_an_hour()
    assert {fault.fault for fault in plan.faults} == set(Fault) - {Fault.OUTAGE, Fault.UPGRADE}
    assert {fault.target for fault in plan.faults if fault.fault is Fault.KILL} == {*PARTS, *ACCOUNTING}


@given(plans)
@settings(max_examples=50)
def test_faults_come_and_are_numbered_in_order(plan):
    assert [fault.number for fault in plan.faults] == list(range(1, len(plan.faults) + 1))
    assert [fault.at_s for fault in plan.faults] == sorted(fault.at_s for fault in plan.faults)


def test_a_few_minutes_kill_the_parts_of_accounting_and_leave_the_other_faults_as_they_are():
    faults = make_plan(seed=1, minutes=5, nodes=NODES).faults
    others = [fault for fault in faults if fault.target not in ACCOUNTING]
    alone = plan_faults(random.Random(1), until_s=225.0, nodes=NODES)
    assert {fault.target for fault in faults} > set(ACCOUNTING)
    assert [(fault.at_s, fault.fault, fault.target) for fault in others] == [
        (fault.at_s, fault.fault, fault.target) for fault in alone
    ]


def test_jobs_come_by_both_doors_into_both_partitions_and_end_in_every_manner():
    jobs = half_an_hour().jobs
    assert {job.door for job in jobs} == set(Door)
    assert {job.partition for job in jobs if job.door is Door.SBATCH} == {"low", "high"}
    assert {job.partition for job in jobs if job.door is Door.POD} == {"low"}
    assert {job.manner for job in jobs} == set(Manner)
    assert any(job.is_deleted for job in jobs)


def test_grace_periods_span_a_minute_and_are_seldom_long_in_a_short_run():
    graces = [job.grace_s for job in half_an_hour().jobs if job.door is Door.POD]
    assert 1 <= min(graces) <= 5
    assert 40 <= max(graces) <= 60
    short = [
        job.grace_s
        for seed in range(20)
        for job in make_plan(seed=seed, minutes=5, nodes=NODES).jobs
        if job.door is Door.POD
    ]
    assert sum(grace_s > 15 for grace_s in short) < len(short) / 6


def test_jobs_that_behave_come_at_the_same_times_and_leave_no_process():
    wild, tame = (
        plan_jobs(random.Random(3), until_s=200, nodes=3, are_long=False, misbehave=misbehave)
        for misbehave in (True, False)
    )
    assert [job.at_s for job in tame] == [job.at_s for job in wild]
    assert any(job.manner is Manner.DAEMON for job in wild)
    assert all(job.manner is not Manner.DAEMON for job in tame)


@pytest.mark.parametrize(
    ("first", "second", "clashes"),
    [
        (Fault.DRAIN, Fault.DOWN_RESUME, True),
        (Fault.DRAIN, Fault.CORDON, False),
        (Fault.KILL_SLURMD, Fault.DELETE_SLURMD, True),
        (Fault.CUT, Fault.DRAIN, False),
        (Fault.SCALE, Fault.ROLL, True),
    ],
)
def test_what_would_undo_the_other_is_not_done_at_the_same_time(first, second, clashes):
    target = "NodeSet" if first is Fault.SCALE else "node-1"
    old = PlannedFault(number=1, at_s=10, fault=first, target=target, lasts_s=20)
    new = PlannedFault(number=2, at_s=15, fault=second, target=target)
    assert clash(new, old) is clashes

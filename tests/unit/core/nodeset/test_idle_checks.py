"""Which idle machines are checked: one check on a node, never too many, and none where a job waits for room."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sunkpy.core import names
from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.figures.nodes import PartitionRow
from sunkpy.core.health.idle_check import IdleCheck, Outcome
from sunkpy.core.model.states import SlurmJob, SlurmNode, is_job_ended
from sunkpy.core.model.times import rfc3339
from sunkpy.core.nodeset.idle_checks import (
    IdlePlan,
    IdleRule,
    IdleView,
    last_check,
    make_job,
    oldest_checks,
    plan_idle_checks,
    read_end,
    record_of,
    refused,
)
from tests.unit.core.nodeset.build import make_nodeset, make_pod

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
OLD = "2026-11-26T12:00:00Z"
RULE = IdleRule(seconds=86400, max_percent=10)
NODESET = make_nodeset()
CHECKS = "sunkpy-verify"


def pod(number=1, *, check=None, created=OLD, seconds="600", annotations=None, **changes):
    notes = {names.ANNOTATION_VERIFY_SECONDS: seconds} if seconds else {}
    notes |= {names.ANNOTATION_IDLE_CHECK: check.encode()} if check else {}
    return make_pod(NODESET, number, created=created, annotations={**notes, **(annotations or {})}, **changes)


def check(outcome, *, ago_h=0.0, job=7, **changes):
    return IdleCheck(job=job, outcome=outcome, at=rfc3339(NOW - timedelta(hours=ago_h)), **changes)


def slurm(on, *state, **changes):
    return SlurmNode(name=on.name, state=frozenset(state or ("IDLE", "DYNAMIC_NORM")), **changes)


def checking(on, state="RUNNING", id=7):
    comment = f"sunkpy check of {on.name} {on.uid}"
    return JobRow(id=id, state=frozenset(state.split("+")), partition=CHECKS, comment=comment)


def waits(partition="main", reason="Resources"):
    return JobRow(id=99, state=frozenset({"PENDING"}), partition=partition, reason=reason)


def plan(*pods, jobs=(), nodes=None, rules=None, are_all_read=True, now=NOW) -> IdlePlan:
    known = {each.name: slurm(each) for each in pods} if nodes is None else {each.name: each for each in nodes}
    of_main = tuple(each.name for each in pods)
    view = IdleView(
        partition=CHECKS,
        rules={NODESET.name: RULE} if rules is None else rules,
        pods={each.name: each for each in pods},
        nodes=known,
        jobs=jobs,
        are_all_read=are_all_read,
        partitions=[PartitionRow(name="main", nodes=of_main), PartitionRow(name="other", nodes=("x",))],
        now=now,
    )
    return plan_idle_checks(view)


PASSED, FAILED, NOT_MADE = Outcome.PASSED, Outcome.FAILED, Outcome.NOT_MADE


@pytest.mark.parametrize(
    ("on", "is_due"),
    [
        (pod(), True),
        (pod(created="2026-11-28T02:00:00Z"), False),
        (pod(check=check(PASSED, ago_h=2)), False),
        (pod(check=check(PASSED, ago_h=25)), True),
        (pod(check=check(FAILED, ago_h=2)), False),
        (pod(check=check(NOT_MADE, ago_h=0.5)), False),
        (pod(check=check(FAILED, ago_h=30, tried="2026-11-28T11:30:00Z")), False),
        (pod(check=check(FAILED, ago_h=30, tried="2026-11-28T11:00:00Z")), True),
        (pod(check=check(NOT_MADE, ago_h=1)), True),
        (pod(check=check(NOT_MADE, ago_h=1, passed="2026-11-28T08:00:00Z")), False),
        (pod(seconds=""), False),
        (pod(annotations={names.ANNOTATION_IDLE_CHECK: '{"job":1,"outcome":"passed","at":"today"}'}), True),
        (pod(ready=False), False),
        (pod(deleting=True), False),
        (pod(token="2026-11-28T11:00:00+00:00/rollout"), False),
        (pod(annotations={names.ANNOTATION_CORDON: "by ann"}), False),
        (pod(annotations={names.ANNOTATION_HEALTH_DRAIN: "fan"}), False),
    ],
)
def test_a_machine_is_due_so_long_after_its_last_check(on, is_due):
    assert plan(on).begin == ((on.name,) if is_due else ())


@pytest.mark.parametrize(
    "state",
    ["ALLOCATED", "MIXED", "IDLE COMPLETING", "IDLE DRAIN", "IDLE PLANNED", "IDLE RESERVED", "IDLE MAINTENANCE", "DOWN",
     "IDLE NOT_RESPONDING", "IDLE REBOOT_REQUESTED", "FUTURE"],
)  # fmt: skip
def test_none_begins_on_a_node_that_somebody_has_wants_or_closed(state):
    on = pod()
    assert plan(on, nodes=[slurm(on, *state.split(), "DYNAMIC_NORM")]).begin == ()
    assert plan(on, nodes=[slurm(on, alloc_cpus=1)]).begin == ()
    assert plan(on, nodes=[]).begin == ()


@pytest.mark.parametrize(
    ("job", "begins"),
    [
        (waits(), False),
        (waits("other,main", "Priority"), False),
        (waits(reason=""), False),
        (waits("other"), True),
        (waits(reason="Dependency"), True),
        (waits(reason="ReqNodeNotAvail"), True),
        (waits(CHECKS), True),
        (JobRow(id=9, state=frozenset({"RUNNING"}), partition="main"), True),
    ],
)
def test_none_begins_where_a_job_waits_for_room(job, begins):
    assert bool(plan(pod(), jobs=[job]).begin) is begins


def test_while_a_job_may_be_missing_none_begins():
    assert plan(pod(), are_all_read=False).begin == ()
    assert plan(pod(), rules={}).begin == ()


def test_the_longest_unchecked_comes_first_and_no_more_than_may_be():
    hours = [30, 48, 26]
    pods = [pod(number, check=check(PASSED, ago_h=ago)) for number, ago in enumerate(hours, 1)]
    assert plan(*pods).begin == (pods[1].name,)
    half = {NODESET.name: IdleRule(seconds=86400, max_percent=70)}
    assert plan(*pods, rules=half).begin == (pods[1].name, pods[0].name)
    assert plan(*pods, rules=half, jobs=[checking(pods[1])]).begin == (pods[0].name,)
    assert oldest_checks(pods, half) == {NODESET.name: (NOW - timedelta(hours=48)).timestamp()}


def test_there_are_no_more_at_once_than_are_read_while_they_hold_their_nodes():
    pods = [pod(number) for number in range(1, 71)]
    every = {NODESET.name: IdleRule(seconds=86400, max_percent=100)}
    assert len(plan(*pods, rules=every).begin) == 20
    jobs = [checking(each, id=number) for number, each in enumerate(pods[:45], 1)]
    assert len(plan(*pods, rules=every, jobs=jobs).begin) == 5
    jobs = [checking(each, id=number) for number, each in enumerate(pods[:60], 1)]
    assert plan(*pods, rules=every, jobs=jobs).begin == ()


@pytest.mark.parametrize(
    ("failures", "percent", "is_halted"),
    [
        ([check(FAILED, ago_h=2)] * 2, 10, False),
        ([check(FAILED, ago_h=2)] * 3, 10, True),
        ([check(FAILED, ago_h=2)] * 3, 80, False),
        ([check(FAILED, ago_h=2)] * 4, 60, True),
        ([check(FAILED, ago_h=2)] * 2 + [check(FAILED, ago_h=24)], 10, False),
        ([check(FAILED, ago_h=2)] * 2 + [check(FAILED, ago_h=2, is_told=True)], 10, False),
        ([check(FAILED, ago_h=2)] * 2 + [check(NOT_MADE, ago_h=2)], 10, False),
    ],
)
def test_after_several_failures_none_begins_before_they_are_looked_at(failures, percent, is_halted):
    """A file server that does not answer would close one node after the other."""
    pods = [pod(1), *(pod(number, check=each) for number, each in enumerate(failures, 2))]
    found = plan(*pods, rules={NODESET.name: IdleRule(seconds=86400, max_percent=percent)})
    assert (found.begin, found.halted) == (((), (NODESET.name,)) if is_halted else ((pods[0].name,), ()))


def test_a_failure_counts_there_as_long_as_its_node_is_closed():
    closed = {names.ANNOTATION_HEALTH_DRAIN: "Verification: failed"}
    told = [pod(number, check=check(FAILED, ago_h=2, is_told=True), annotations=closed) for number in (2, 3, 4)]
    assert plan(pod(1), *told).halted == (NODESET.name,)


def test_what_does_not_start_or_is_in_the_way_is_ended():
    on = pod()
    assert plan(on, jobs=[checking(on, "PENDING")]).end == (7,)
    assert plan(on, jobs=[checking(on)], nodes=[slurm(on, "ALLOCATED")]).end == ()
    assert plan(on, jobs=[checking(on)], nodes=[slurm(on, "ALLOCATED", "DRAIN", reason="fan")]).end == (7,)
    leaves = pod(token="2026-11-28T11:00:00+00:00/rollout")
    assert plan(leaves, jobs=[checking(leaves)]).end == (7,)
    assert plan(on, jobs=[checking(on, "CANCELLED")]).end == ()
    stranger = msgspec.structs.replace(checking(on), partition="main")
    assert plan(on, jobs=[stranger], nodes=[slurm(on, "ALLOCATED", "DRAIN", reason="fan")]).end == ()


def test_how_each_stands_is_read_until_its_end_is_written():
    on, told = pod(), pod(check=check(PASSED))
    assert plan(on, jobs=[checking(on)]).read == ((on.name, 7),)
    assert plan(on, jobs=[checking(on, "PENDING")]).read == ()
    assert plan(on, jobs=[checking(on, "PREEMPTED"), checking(on, "COMPLETED", id=8)]).read == ((on.name, 8),)
    assert plan(told, jobs=[checking(on, "COMPLETED")]).read == ()
    assert plan(on, jobs=[checking(on, "COMPLETED")]).begin == (), "its end is not written yet"
    assert plan(pod(created="2026-11-27T12:00:00Z"), jobs=[checking(on)]).read == (), "of an earlier slurmd pod"


def test_once_the_node_is_closed_its_failure_is_no_news():
    closed = {names.ANNOTATION_HEALTH_DRAIN: "Verification: failed"}
    assert plan(pod(check=check(FAILED), annotations=closed)).told == (pod().name,)
    for other in (pod(check=check(FAILED)), pod(check=check(FAILED, is_told=True), annotations=closed)):
        assert plan(other).told == ()


@pytest.mark.parametrize(
    ("state", "code", "comment", "end"),
    [
        ("RUNNING", 0, "", None),
        ("RUNNING", 0, "failed: verify failed with 3\nlink is down\nbye", (FAILED, "verify failed with 3")),
        ("PREEMPTED", 0, "failed: verify failed with 3\nlink is down\nbye", (FAILED, "verify failed with 3")),
        ("RUNNING", 0, "failed once: verify failed with 3\nlink is down\nbye", None),
        (
            "PREEMPTED", 143, "failed once: verify failed with 3\nlink is down\nbye",
            (FAILED, "verify failed with 3, and its job ended as PREEMPTED before it has passed"),
        ),
        (
            "NODE_FAIL", 0, "failed once: verify failed with 3\nlink is down\nbye",
            (FAILED, "verify failed with 3, and its job ended as NODE_FAIL before it has passed"),
        ),
        ("COMPLETED", 0, "failed once: verify failed with 3\nlink is down\nbye", (PASSED, "verify failed with 3")),
        ("RUNNING", 0, "passed: and passed 60 s later\nlink is down\nbye", (PASSED, "and passed 60 s later")),
        ("OUT_OF_MEMORY", 125, "passed: and passed 60 s later", (PASSED, "and passed 60 s later")),
        ("FAILED", 2, "not made: no environment", (NOT_MADE, "no environment")),
        ("COMPLETED", 0, "", (PASSED, "")),
        ("COMPLETED+COMPLETING", 0, "", (PASSED, "")),
        ("FAILED", 1, "", (FAILED, "its job ended as FAILED with 1, and Slurm does not have its log")),
        ("FAILED", 143, "", (FAILED, "its job ended as FAILED with 143, and Slurm does not have its log")),
        ("NODE_FAIL", 0, "", (FAILED, "its job ended as NODE_FAIL with 0, and Slurm does not have its log")),
        ("OUT_OF_MEMORY", 0, "", (FAILED, "its job ended as OUT_OF_MEMORY with 0, and Slurm does not have its log")),
        ("BOOT_FAIL", 0, "", (NOT_MADE, "its job ended as BOOT_FAIL")),
        ("TIMEOUT", 0, "", (FAILED, "verify did not end in time, and could not be killed")),
        ("PREEMPTED", 143, "", (NOT_MADE, "its job ended as PREEMPTED")),
        ("CANCELLED", 0, "", (NOT_MADE, "its job ended as CANCELLED")),
    ],
)  # fmt: skip
def test_how_a_check_ended(state, code, comment, end):
    on = pod(check=check(PASSED, ago_h=30, passed=OLD))
    job = SlurmJob(id=9, state=frozenset(state.split("+")), exit_code=code, comment=comment)
    found = read_end(job, on, NOW)
    assert (found and (found.outcome, found.text)) == end
    if found is not None:
        is_passed = found.outcome is PASSED
        assert (found.job, found.passed) == (9, rfc3339(NOW) if is_passed else OLD)
        assert found.log == ("link is down\nbye" if "link" in comment else "")


@pytest.mark.parametrize(
    "state", ["COMPLETED", "FAILED", "TIMEOUT", "PREEMPTED", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"]
)
def test_a_failure_stands_unless_the_next_try_passes(state):
    def read(state, comment):
        end = read_end(SlurmJob(id=9, state=frozenset({state}), comment=comment), pod(), NOW)
        return end and (end.outcome, end.log)

    told = [f"{word}verify failed with 3\nlink is down" for word in ("failed once: ", "passed: ", "failed: ")]
    assert [read("RUNNING", each) for each in told] == [None, (PASSED, "link is down"), (FAILED, "link is down")]
    # Slurm may not have taken that it passed. The syncer cancels a check if somebody drains the node.
    once, log = {"COMPLETED": (PASSED, "link is down"), "CANCELLED": (NOT_MADE, "link is down")}.get(
        state, (FAILED, "link is down")
    )
    assert [read(state, each) for each in told] == [(once, log), (PASSED, log), (FAILED, log)]


def test_what_slurm_refuses_is_tried_again_in_an_hour():
    on = pod(check=refused(pod(), "no", NOW))
    assert (plan(on).begin, plan(on, now=NOW + timedelta(hours=1)).begin) == ((), (on.name,))


@pytest.mark.parametrize("is_told", [False, True])
def test_a_failure_stays_until_another_check_was_made(is_told):
    failed = check(FAILED, ago_h=30, passed=OLD, text="link is down", log="mlx5_3", is_told=is_told)
    on, now = pod(check=failed), rfc3339(NOW)
    preempted = check(NOT_MADE, job=9, text="its job ended as PREEMPTED")
    assert record_of(on, preempted) == msgspec.structs.replace(failed, job=9, tried=now)
    assert record_of(on, refused(on, "no", NOW)) == msgspec.structs.replace(failed, tried=now)
    for made in (check(PASSED, job=9), check(FAILED, job=9, text="fan")):
        assert record_of(on, made) == made
    for earlier in (pod(), pod(check=check(PASSED))):
        assert record_of(earlier, preempted) == preempted


def test_its_job_has_the_whole_node_and_an_end():
    on = pod()
    job = make_job(on, slurm(on, memory_mib=9000, effective_memory_mib=8000), partition=CHECKS, qos="checks")
    assert (job.whole_nodes, job.required_nodes, job.memory_mib_per_node) == (True, (on.name,), 8000)
    assert (job.partition, job.qos, job.time_limit_min) == (CHECKS, "checks", 25)
    assert job.comment == checking(on).comment


# ------------------------------------------------------------------------------------------------------- whatever comes


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_whatever_happens(data):
    """Passes at any time, by leaders that remember nothing, between jobs that end in any way and people's jobs."""
    pods = [pod(number) for number in range(1, 8)]
    rule = IdleRule(seconds=7200, max_percent=data.draw(st.sampled_from((1, 30, 100))))
    jobs: list[JobRow] = []
    now, begun = NOW, {}
    for _ in range(data.draw(st.integers(1, 12))):
        now += timedelta(minutes=data.draw(st.sampled_from((0, 1, 30, 120))))
        is_wanted = data.draw(st.booleans())
        busy = {job.comment for job in jobs if not is_job_ended(job.state)}
        nodes = [slurm(each, "ALLOCATED" if checking(each).comment in busy else "IDLE") for each in pods]
        people = [waits()] if is_wanted else []
        found = plan(*pods, jobs=[*jobs, *people], nodes=nodes, rules={NODESET.name: rule}, now=now)
        running = [job for job in jobs if not is_job_ended(job.state)]
        assert len(running) + len(found.begin) <= rule.most(len(pods))
        assert not (is_wanted and found.begin)
        for name, id in found.read:
            at = next(index for index, each in enumerate(pods) if each.name == name)
            row = next(job for job in jobs if job.id == id)
            end = read_end(SlurmJob(id=id, state=row.state), pods[at], now)
            if end is not None and data.draw(st.booleans()):  # else the apiserver does not answer
                pods[at] = pod(at + 1, check=end)
        for name in found.begin:
            on = next(each for each in pods if each.name == name)
            assert checking(on).comment not in busy
            assert now - begun.get(name, now - timedelta(days=9)) >= min(timedelta(hours=1), timedelta(seconds=7200))
            begun[name] = now
            if data.draw(st.integers(0, 4)):  # else it is not known, and Slurm has not taken it
                jobs.append(checking(on, data.draw(st.sampled_from(("RUNNING", "PENDING"))), id=len(jobs) + 1))
            else:
                del begun[name]
        jobs = [
            msgspec.structs.replace(
                job, state=frozenset({data.draw(st.sampled_from(("COMPLETED", "PREEMPTED", "RUNNING")))})
            )
            if not is_job_ended(job.state) and data.draw(st.booleans())
            else job
            for job in jobs
        ]
    assert all(last_check(each) is not None for each in pods)
